#include "cluster/agent.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "cluster/children.hpp"
#include "cluster/kept_saves.hpp"
#include "cluster/launch.hpp"
#include "core/clock.hpp"

namespace troupe::cluster {
namespace {

using core::error_kind;

/// The job's file for the processes of this machine, in memory.
core::result<shared_descriptor> file_of(const job_order& order) {
  auto out = own(::memfd_create("topology", MFD_CLOEXEC));
  const bool is_good = out->number() >= 0 && ::write(out->number(), order.file.data(), order.file.size()) ==
                                                 static_cast<ssize_t>(order.file.size());
  if (!is_good) return core::fail(error_kind::limit, "an agent: the system refuses memory for the job's file");
  return out;
}

class agent {
 public:
  agent(polled_link& supervisor, const agent_options& o) : supervisor_(supervisor), options_(o) {}

  core::result<int> run() {
    heard_ns_ = looked_ns_ = core::now_ns();
    for (;;) {
      wait();
      auto came = supervisor_.receive();
      if (!came) return lost(came.error().text);
      for (auto& p : *came)
        if (auto ok = hear(std::move(p.what)); !ok) return core::fail(ok.error());
      if (code_ && (!children_ || children_->is_empty())) return *code_;
      if (code_ && core::now_ns() > over_ns_ + ending_ns_max) children_->kill_all();
      if (auto ok = look(!came->empty()); !ok) return core::fail(ok.error());
      if (failure_) return lost(*failure_);
    }
  }

 private:
  core::error lost_error(const std::string& how) const { return {error_kind::peer_lost, "the first host: " + how}; }
  core::result<int> lost(const std::string& how) {
    if (children_) children_->kill_all();
    if (code_) return *code_;
    return core::fail(lost_error(how));
  }

  /// Beats, and whether the supervisor has been silent for too long. While there is no job yet nothing is.
  core::result<void> look(bool something_came) {
    if (!order_) return {};
    const int64_t now = core::now_ns();
    if (something_came || now - looked_ns_ > order_->lost_after_ns / 2) heard_ns_ = now;  // or it did not run itself
    looked_ns_ = now;
    if (now - heard_ns_ > order_->lost_after_ns && !code_) {
      if (children_) children_->kill_all();
      return core::fail(lost_error(fmt::format("was silent for {:.1f} s", double(now - heard_ns_) / 1e9)));
    }
    if (now < beat_ns_) return {};
    beat_ns_ = now + order_->lost_after_ns / 5;
    tell(beat{});
    return {};
  }

  void tell(message m) {
    if (const auto sent = supervisor_.send({std::move(m), {}}); !sent) failure_ = sent.error().text;
  }

  core::result<void> hear(message m) {
    if (auto* x = std::get_if<job_order>(&m)) return begin(std::move(*x));
    if (const auto* x = std::get_if<job_over>(&m)) {
      code_ = x->code;
      over_ns_ = core::now_ns();
      if (children_) children_->let_end();
    }
    if (!children_) return {};
    if (const auto* x = std::get_if<start_place>(&m)) return children_->start(x->place);
    if (const auto* x = std::get_if<kill_place>(&m)) children_->kill(x->place);
    if (const auto* x = std::get_if<signalled>(&m)) children_->pass_signal(x->place, x->signal);
    if (const auto* x = std::get_if<kept_save>(&m)) saves_.whole(x->folder, x->written);
    if (const auto* x = std::get_if<passed>(&m)) {
      auto inner = decode(x->what);
      if (!inner) return core::fail(inner.error());
      pass_down(x->place, std::move(*inner));
    }
    return {};
  }

  core::result<void> begin(job_order order) {
    if (order_) return core::fail(error_kind::mismatch, "an agent: wanted one job, got another");
    order_ = std::move(order);
    if (!order_->folder.empty() && ::chdir(order_->folder.c_str()) != 0)
      options_.say("there is no folder " + order_->folder + " here: relative paths are in this one");
    auto file = file_of(*order_);
    if (!file) return core::fail(file.error());
    file_ = *file;
    auto arguments = order_->arguments;
    if (order_->file_argument < arguments.size())
      arguments[order_->file_argument] = fmt::format("/proc/{}/fd/{}", ::getpid(), file_->number());
    uint32_t places = 0;
    for (const uint32_t p : order_->places) places = std::max(places, p + 1);
    children_.emplace(
        children_setup{options_.program, std::move(arguments), places},
        [this](uint32_t place, parcel p) { pass_up(place, std::move(p)); },
        [this](uint32_t place, const std::string& how) {
          tell(place_ended{place, how});
        });
    return {};
  }

  void pass_down(uint32_t place, message m) {
    std::vector<shared_descriptor> with;
    if (const auto* x = std::get_if<begin_term>(&m)) term_ = *x;
    if (const auto* x = std::get_if<kept_file>(&m)) {
      const auto folder = x->path.substr(0, x->path.find_last_of('/'));
      const auto all = saves_.of(folder);
      if (const auto at = all.find(x->path); at != all.end()) with = at->second->with;
    }
    children_->send(place, {std::move(m), std::move(with)});
  }

  void pass_up(uint32_t place, parcel p) {
    if (auto* x = std::get_if<offer>(&p.what)) {
      if (!term_ || x->term != term_->number) return;
      for (const seat& s : term_->seats)
        if (s.machine == order_->machine && s.place != place) children_->send(s.place, p);
      return;
    }
    if (auto* x = std::get_if<kept_file>(&p.what)) saves_.add(x->path, x->bytes, std::move(p.with), order_->machine);
    tell(passed{place, encode(p.what)});
  }

  void wait() {
    const int events = POLLIN | (supervisor_.has_waiting() ? POLLOUT : 0);
    std::vector<pollfd> on{{options_.signals ? options_.signals->number() : -1, POLLIN, 0},
                           {supervisor_.number(), static_cast<short>(events), 0}};
    if (children_) children_->add_to(on);
    ::poll(on.data(), on.size(), 100);
    if ((on[1].revents & POLLOUT) != 0) (void)supervisor_.flush();
    if (children_) children_->listen(on, 2);
    signalfd_siginfo info{};
    while (on[0].revents != 0 && ::read(options_.signals->number(), &info, sizeof info) == sizeof info) {
      tell(signalled{static_cast<int32_t>(info.ssi_signo)});
      if (!order_) code_ = 128 + static_cast<int>(info.ssi_signo);
    }
  }

  polled_link& supervisor_;
  const agent_options& options_;
  std::optional<job_order> order_;
  shared_descriptor file_;
  std::optional<children> children_;
  std::optional<begin_term> term_;
  kept_saves saves_;
  std::optional<int> code_;
  std::optional<std::string> failure_;
  int64_t heard_ns_ = 0, looked_ns_ = 0, beat_ns_ = 0, over_ns_ = 0;
};

}  // namespace

core::result<int> serve_as_agent(polled_link& supervisor, const agent_options& options) {
  return agent(supervisor, options).run();
}

}  // namespace troupe::cluster
