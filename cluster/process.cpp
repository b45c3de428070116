#include "cluster/process.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <utility>

#include "core/clock.hpp"

namespace troupe::cluster {
namespace {

/// Of `lost_after`: a process that hears nothing for so long gives its ranks up, before its supervisor plans without
/// them.
constexpr double give_up_share = 0.6;
/// How long a process that leaves waits for its last words to be taken.
constexpr int64_t leaving_ns = 2'000'000'000;

}  // namespace

std::optional<link_place> take_link_place() {
  const char* const text = std::getenv(link_variable);
  if (text == nullptr) return std::nullopt;
  const std::string_view all = text;
  link_place out;
  const size_t colon = all.find(':');
  const bool good = colon != std::string_view::npos &&
                    std::from_chars(all.data(), all.data() + colon, out.descriptor).ec == std::errc() &&
                    std::from_chars(all.data() + colon + 1, all.data() + all.size(), out.place).ec == std::errc();
  ::unsetenv(link_variable);
  return good ? std::optional(out) : std::nullopt;
}

process::process(shared_descriptor end, process_setup setup)
    : setup_(std::move(setup)), link_(std::move(end)), wake_(own(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC))) {
  send(hello{static_cast<uint64_t>(::getpid()), setup_.version, setup_.configuration});
  listener_ = std::thread([this] { listen(); });
}

process::~process() {
  send(leaving{code_});
  const int64_t until = core::now_ns() + leaving_ns;
  while (link_.has_waiting() && core::now_ns() < until && link_.flush()) ::usleep(1000);
  stopping_ = true;
  wake();
  listener_.join();
}

void process::wake() const {
  const uint64_t one = 1;
  (void)!::write(wake_->number(), &one, sizeof one);
}

void process::send(message m, std::vector<shared_descriptor> with) {
  const auto sent = link_.send({std::move(m), std::move(with)});
  if (sent) {
    if (link_.has_waiting()) wake();
    return;
  }
  if (sent.error().kind == core::error_kind::limit) fail(sent.error());  // said by name, not left out in silence
}

void process::listen() {
  const int64_t beat_ns = setup_.lost_after_ns / 5;
  int64_t heard_ns = core::now_ns(), looked_ns = heard_ns, beat_due_ns = heard_ns;
  while (!stopping_) {
    std::array<pollfd, 2> on{{{link_.number(), POLLIN, 0}, {wake_->number(), POLLIN, 0}}};
    if (link_.has_waiting()) on[0].events |= POLLOUT;
    ::poll(on.data(), on.size(), static_cast<int>(beat_ns / 1'000'000));
    uint64_t count = 0;
    (void)!::read(wake_->number(), &count, sizeof count);
    const int64_t now = core::now_ns();
    const auto give_up_ns = static_cast<int64_t>(give_up_share * double(setup_.lost_after_ns));
    // It was stopped for long: others may have gone on without it.
    const bool was_away = now - looked_ns > give_up_ns;
    looked_ns = now;
    (void)link_.flush();
    auto came = link_.receive();
    if (!came) return lost_supervisor(came.error().text);
    if (!came->empty()) heard_ns = now;
    for (auto& p : *came) hear(std::move(p));
    if (was_away || now - heard_ns > give_up_ns) {
      end_here({term_, false, core::error_kind::peer_lost,
                was_away ? "this process did not run for a while" : "the supervisor was silent"});
      if (was_away) heard_ns = now;
    }
    if (now < beat_due_ns) continue;
    beat_due_ns = now + beat_ns;
    send(beat{});
  }
}

void process::hear(parcel p) {
  std::unique_lock lock(mutex_);
  if (auto* x = std::get_if<begin_term>(&p.what)) {
    terms_.push_back(std::move(*x));
  } else if (auto* x = std::get_if<kept_file>(&p.what)) {
    if (!p.with.empty()) files_[x->path] = {x->bytes, p.with.front()};
  } else if (auto* x = std::get_if<offer>(&p.what)) {
    if (!p.with.empty()) offers_[{x->term, x->number}] = p.with.front();
  } else if (auto* x = std::get_if<started>(&p.what)) {
    started_ = x->term;
  } else if (auto* x = std::get_if<call>(&p.what)) {
    calls_.push_back(std::move(*x));
  } else if (auto* x = std::get_if<answer>(&p.what)) {
    if (x->number == 0) {
      const auto hear_note = note_;
      lock.unlock();
      if (hear_note) hear_note(*x);
      return;
    }
    answers_.push_back(std::move(*x));
  } else if (auto* x = std::get_if<join_wanted>(&p.what)) {
    if (x->term == term_) join_wanted_ = true;
  } else if (auto* x = std::get_if<state_question>(&p.what)) {
    const auto describe = describe_;
    lock.unlock();
    return send(state_text{x->question, setup_.place, describe ? describe() : std::string()});
  } else if (auto* x = std::get_if<end_term>(&p.what)) {
    lock.unlock();
    return end_here(*x);
  } else if (std::holds_alternative<dismissal>(p.what)) {
    over_ = core::error{core::error_kind::stopped, "the job is over"};
  }
  came_.notify_all();
}

// The first reason counts, but that the run ends counts more than that the term does.
void process::end_here(const end_term& why) {
  std::unique_lock lock(mutex_);
  if (why.term > term_ && !why.is_final) {  // nobody has begun it here
    std::erase_if(terms_, [&](const begin_term& t) { return t.number == why.term; });
    lock.unlock();
    return send(cluster::quiet{why.term});
  }
  if (why.term != term_ && !why.is_final) return;
  const bool is_first = !ending_;
  if (is_first || (why.is_final && !ending_->is_final)) ending_ = why;
  const auto tell = tell_end_;
  came_.notify_all();
  lock.unlock();
  if (is_first && tell) tell({why.kind, why.text});
}

void process::lost_supervisor(const std::string& how) {
  {
    const std::lock_guard lock(mutex_);
    if (!over_) over_ = core::error{core::error_kind::peer_lost, "the supervisor's process has ended: " + how};
    came_.notify_all();
  }
  end_here({term_, true, core::error_kind::peer_lost, "the supervisor's process has ended: " + how});
}

std::optional<end_term> process::ending() const {
  const std::lock_guard lock(mutex_);
  return ending_;
}

end_term process::wait_for_end() {
  std::unique_lock lock(mutex_);
  came_.wait(lock, [&] { return ending_ || over_; });
  return ending_ ? *ending_ : end_term{term_, true, over_->kind, over_->text};
}

void process::on_end(std::function<void(const core::error&)> tell) {
  std::unique_lock lock(mutex_);
  tell_end_ = std::move(tell);
  if (!ending_ || !tell_end_) return;
  const core::error why{ending_->kind, ending_->text};
  const auto now = tell_end_;
  lock.unlock();
  now(why);
}

template <class Ready>
core::result<void> process::wait(std::unique_lock<std::mutex>& lock, Ready is_ready) {
  came_.wait(lock, [&] { return is_ready() || ending_ || over_; });
  if (is_ready()) return {};
  if (ending_) return core::fail(ending_->kind, ending_->text);
  return core::fail(*over_);
}

core::result<term_order> process::next_term() {
  std::unique_lock lock(mutex_);
  tell_end_ = nullptr;
  // That a term ends which this process has left already, or had no part in, is nothing to it.
  const auto is_final = [&] { return ending_ && ending_->is_final; };
  came_.wait(lock, [&] { return !terms_.empty() || is_final() || over_; });
  if (is_final()) return core::fail(ending_->kind, ending_->text);
  if (terms_.empty()) return core::fail(*over_);
  ending_.reset();
  term_order out{std::move(terms_.front()), {}};
  terms_.pop_front();
  term_ = out.order.number;
  leads_ = out.order.seats.front().place == setup_.place;
  join_wanted_ = false;
  // What has come of the new term already stays: others may have begun it before.
  const auto is_old = [&](const auto& x) { return x.term < term_; };
  std::erase_if(offers_, [&](const auto& x) { return x.first.first < term_; });
  std::erase_if(calls_, is_old);
  std::erase_if(answers_, is_old);
  std::swap(out.files, files_);
  return out;
}

core::result<void> process::ready(const std::string& digest) {
  send(cluster::ready{term_, digest});
  std::unique_lock lock(mutex_);
  return wait(lock, [&] { return started_ == term_; });
}

void process::quiet() {
  {
    const std::lock_guard lock(mutex_);
    tell_end_ = nullptr;
    note_ = nullptr;
  }
  send(cluster::quiet{term_});
}

void process::fail(const core::error& why) { (void)link_.send({failed{term_, why.kind, why.text}, {}}); }

void process::change(uint32_t data) {
  join_wanted_ = false;
  send(between_steps{term_, data});
}

void process::give(uint32_t number, const shared_descriptor& what) { send(offer{term_, number}, {what}); }

core::result<std::map<uint32_t, shared_descriptor>> process::take(const std::vector<uint32_t>& numbers) {
  std::unique_lock lock(mutex_);
  const auto is_here = [&](uint32_t n) { return offers_.contains({term_, n}); };
  if (auto ok = wait(lock, [&] { return std::ranges::all_of(numbers, is_here); }); !ok) return core::fail(ok.error());
  std::map<uint32_t, shared_descriptor> out;
  for (const uint32_t n : numbers) out[n] = std::move(offers_[{term_, n}]);
  return out;
}

uint64_t process::tell(std::string what) {
  const uint64_t number = ++number_;
  send(call{term_, number, std::move(what)});
  return number;
}

core::result<std::vector<answer>> process::answers(uint64_t number, size_t count) {
  std::unique_lock lock(mutex_);
  const auto is_of = [&](const answer& a) { return a.number == number && a.term == term_; };
  if (auto ok = wait(lock, [&] { return static_cast<size_t>(std::ranges::count_if(answers_, is_of)) >= count; }); !ok)
    return core::fail(ok.error());
  std::vector<answer> out;
  for (auto& a : answers_)
    if (is_of(a)) out.push_back(std::move(a));
  std::erase_if(answers_, [&](const answer& a) { return a.number <= number; });
  return out;
}

core::result<call> process::next_call() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (auto ok = wait(lock, [&] { return !calls_.empty(); }); !ok) return core::fail(ok.error());
    call out = std::move(calls_.front());
    calls_.pop_front();
    if (out.term == term_) return out;
  }
}

void process::reply(uint64_t number, std::string what) { send(answer{term_, number, setup_.place, std::move(what)}); }

void process::on_note(std::function<void(const answer&)> hear) {
  const std::lock_guard lock(mutex_);
  note_ = std::move(hear);
}

void process::keep(const std::string& path, uint64_t bytes, const shared_descriptor& with) {
  send(kept_file{path, bytes}, {with});
}

void process::keep_whole(const std::string& folder, const std::string& written, uint64_t step) {
  send(kept_save{folder, written, step});
}

void process::on_question(std::function<std::string()> describe) {
  const std::lock_guard lock(mutex_);
  describe_ = std::move(describe);
}

}  // namespace troupe::cluster
