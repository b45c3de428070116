// Runs members of a communicator that follow a script, on any backend: all on one thread in an order that depends on a
// seed, or each on a separate thread.
#pragma once

#include <fmt/format.h>

#include <cassert>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fabric/in_process.hpp"
#include "fabric/modelled.hpp"
#include "tests/fabric/mailbox.hpp"

namespace troupe::tests {

/// Script of one member: it posts `requests` in order, with at most `window` of them unfinished.
struct part {
  std::vector<fabric::request> requests;
  size_t window = 1;
  std::optional<size_t> leaves_at;  ///< index of the request instead of which the member destroys its communicator
  std::optional<size_t> aborts_at;  ///< index of the request instead of which the member aborts
};

/// How a member ended: empty if all its operations completed or it left according to its script, otherwise its error.
using ending = std::optional<core::error>;

/// One member that follows its script and destroys its communicator as soon as the script ends, like an actor.
class performer {
 public:
  performer(part p, std::unique_ptr<fabric::communicator> c) : part_(std::move(p)), communicator_(std::move(c)) {}

  [[nodiscard]] bool over() const { return communicator_ == nullptr; }
  [[nodiscard]] const ending& end() const { return ending_; }

  void start() { post_more(); }

  void woken(uint64_t sequence) {
    if (over() || !unfinished_.contains(sequence)) return;
    advance(sequence);
    post_more();
  }

  void give_up(const core::error& why) {
    if (over()) return;
    communicator_->abort(why);
    finish(why);
  }

  void stalled() {
    if (over()) return;
    std::string text = "stalled";
    for (const uint64_t s : unfinished_)
      for (const uint32_t rank : communicator_->missing(s))
        text += fmt::format("; sequence {} waits for rank {}", s, rank);
    finish(core::error{core::error_kind::stalled, text});
  }

 private:
  void post_more() {
    while (!over() && unfinished_.size() < part_.window) {
      if (posted_ == part_.leaves_at) return finish(std::nullopt);
      if (posted_ == part_.aborts_at) {
        const core::error why{core::error_kind::stopped, fmt::format("rank {} stops", communicator_->rank())};
        communicator_->abort(why);
        return finish(why);
      }
      if (posted_ == part_.requests.size()) {
        if (unfinished_.empty()) finish(std::nullopt);
        return;
      }
      const fabric::request& r = part_.requests[posted_++];
      if (const auto ok = communicator_->post(r); !ok) return finish(ok.error());
      unfinished_.insert(r.id.sequence);
      advance(r.id.sequence);
    }
  }

  void advance(uint64_t sequence) {
    const auto p = communicator_->advance(sequence);
    if (!p) return finish(p.error());
    if (*p == fabric::progress::done) unfinished_.erase(sequence);
  }

  void finish(ending e) {
    ending_ = std::move(e);
    unfinished_.clear();
    communicator_.reset();
  }

  part part_;
  std::unique_ptr<fabric::communicator> communicator_;
  size_t posted_ = 0;
  std::set<uint64_t> unfinished_;
  ending ending_;
};

/// Backend for run_on_stage(): an in-process group whose members all run on the calling thread.
class in_process_stage {
 public:
  explicit in_process_stage(uint32_t size) : group_(fabric::in_process_group::make(size)) {}

  std::unique_ptr<fabric::communicator> join(uint32_t rank) {
    return group_->join(rank, [mail = mail_, rank](uint64_t sequence) { mail->emplace_back(rank, sequence); });
  }

  /// Returns a random one of the pending wake-ups, or nothing if there is none.
  std::optional<std::pair<uint32_t, uint64_t>> next(auto& random) {
    if (mail_->empty()) return std::nullopt;
    std::swap((*mail_)[random() % mail_->size()], mail_->back());
    const auto out = mail_->back();
    mail_->pop_back();
    return out;
  }

  [[nodiscard]] size_t under_way() const { return mail_->size(); }

 private:
  std::shared_ptr<fabric::in_process_group> group_;
  std::shared_ptr<std::vector<std::pair<uint32_t, uint64_t>>> mail_ =
      std::make_shared<std::vector<std::pair<uint32_t, uint64_t>>>();
};

/// Backend for run_on_stage(): a modelled group with its virtual clock.
class modelled_stage {
 public:
  explicit modelled_stage(uint32_t size, fabric::linear_link link = {}, const std::vector<uint32_t>& acted_by = {})
      : group_(fabric::modelled_group::make(size, link,
                                            {.now_ns = [w = world_] { return w->now_ns; },
                                             .schedule =
                                                 [w = world_](int64_t delay_ns, uint32_t rank, uint64_t sequence) {
                                                   w->mail.emplace(w->now_ns + delay_ns, std::pair{rank, sequence});
                                                 }},
                                            {}, acted_by)) {}

  std::unique_ptr<fabric::communicator> join(uint32_t rank) {
    return group_->join(rank, [w = world_, rank](uint64_t sequence) {
      w->mail.emplace(w->now_ns, std::pair{rank, sequence});
    });
  }

  /// Returns a random one of the earliest pending wake-ups, and sets the clock to its time; returns nothing if there is
  /// none.
  std::optional<std::pair<uint32_t, uint64_t>> next(auto& random) {
    if (world_->mail.empty()) return std::nullopt;
    const auto first = world_->mail.begin();
    const auto at_once = static_cast<long>(world_->mail.count(first->first));
    const auto drawn = std::next(first, static_cast<long>(random()) % at_once);
    world_->now_ns = drawn->first;
    const auto out = drawn->second;
    world_->mail.erase(drawn);
    return out;
  }

  /// Cuts the link until a time of this clock.
  void hold(int64_t until_ns) { group_->hold(until_ns); }

  [[nodiscard]] size_t under_way() const { return world_->mail.size(); }
  [[nodiscard]] int64_t now_ns() const { return world_->now_ns; }

 private:
  struct world {
    int64_t now_ns = 0;
    std::multimap<int64_t, std::pair<uint32_t, uint64_t>> mail;
  };
  std::shared_ptr<world> world_ = std::make_shared<world>();
  std::shared_ptr<fabric::modelled_group> group_;
};

/// Runs all members on this thread; `seed` determines the order in which they start and are woken.
std::vector<ending> run_on_stage(auto& stage, std::vector<part> parts, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<performer> company;
  for (uint32_t rank = 0; rank < parts.size(); ++rank) company.emplace_back(std::move(parts[rank]), stage.join(rank));
  std::vector<uint32_t> to_start;
  for (uint32_t rank = 0; rank < company.size(); ++rank) to_start.push_back(rank);
  std::shuffle(to_start.begin(), to_start.end(), random);
  while (true) {
    if (!to_start.empty() && (stage.under_way() == 0 || random() % 2 == 0)) {
      company[to_start.back()].start();
      to_start.pop_back();
    } else if (const auto wake = stage.next(random)) {
      company[wake->first].woken(wake->second);
    } else if (to_start.empty()) {
      break;
    }
  }
  std::vector<ending> out;
  for (performer& p : company) {
    p.stalled();
    out.push_back(p.end());
  }
  return out;
}

template <class Stage>
std::vector<ending> run_on_one_thread(std::vector<part> parts, uint32_t seed) {
  Stage stage(static_cast<uint32_t>(parts.size()));
  return run_on_stage(stage, std::move(parts), seed);
}

/// Runs members of an in-process group on one thread. Every test of values and failures runs on this backend and on
/// the other structs with a function run(), here and in shared_company.hpp.
struct in_process_on_one_thread {
  static std::vector<ending> run(std::vector<part> parts, uint32_t seed = 1) {
    return run_on_one_thread<in_process_stage>(std::move(parts), seed);
  }
};

struct modelled {
  static std::vector<ending> run(std::vector<part> parts, uint32_t seed = 1) {
    return run_on_one_thread<modelled_stage>(std::move(parts), seed);
  }
};

struct in_process_on_threads {
  static std::vector<ending> run(std::vector<part> parts, uint32_t = 1) {
    const auto size = static_cast<uint32_t>(parts.size());
    auto group = fabric::in_process_group::make(size);
    std::vector<ending> out(size);
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < size; ++rank)
      threads.emplace_back([&, rank] {
        const auto box = std::make_shared<mailbox>();
        performer self(std::move(parts[rank]), group->join(rank, [box](uint64_t sequence) { box->push(sequence); }));
        self.start();
        while (!self.over()) {
          if (const auto sequence = box->pop())
            self.woken(*sequence);
          else
            self.stalled();
        }
        out[rank] = self.end();
      });
    for (auto& t : threads) t.join();
    return out;
  }
};

}  // namespace troupe::tests
