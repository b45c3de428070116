#include "cluster/process.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "cluster/silence.hpp"
#include "core/cells.hpp"
#include "core/clock.hpp"
#include "core/number.hpp"

namespace troupe::cluster {
namespace {

/// Time in nanoseconds that an ending process waits for its last message to be received.
constexpr int64_t leaving_ns = 2'000'000'000;

}  // namespace

std::optional<link_place> take_link_place() {
  const char* const text = std::getenv(link_variable);
  if (text == nullptr) return std::nullopt;
  std::string_view place = text, descriptor = core::take_cell(place, ':');
  const auto number = core::take_number<int>(descriptor);
  const auto at = core::take_number<uint32_t>(place);
  ::unsetenv(link_variable);
  return number && at ? std::optional(link_place{*number, *at}) : std::nullopt;
}

process::process(shared_descriptor end, process_setup setup)
    : setup_(std::move(setup)),
      link_(end != nullptr ? std::move(end) : own(-1)),
      wake_(own(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC))),
      state_(setup_.place, std::max<int64_t>(setup_.lost_after_ns, 1), core::now_ns()) {
  if (link_.number() < 0 || setup_.lost_after_ns <= 0) {
    lost_supervisor(link_.number() < 0
                        ? "a link to it was wanted, got none"
                        : fmt::format("a limit of silence above 0 ns was wanted, got {}", setup_.lost_after_ns));
    return;
  }
  send(hello{static_cast<uint64_t>(::getpid()), setup_.version, setup_.configuration});
  listener_ = std::thread([this] { listen(); });
}

process::~process() {
  if (code_) {
    send(leaving{*code_});
    const int64_t until = core::now_ns() + leaving_ns;
    while (link_.has_waiting() && core::now_ns() < until && link_.flush()) ::usleep(1000);
  }
  stopping_ = true;
  wake();
  if (listener_.joinable()) listener_.join();
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
  // The link refused the message because too much is queued: the run fails, instead of losing a message silently.
  if (sent.error().kind == core::error_kind::limit) fail(sent.error());
}

void process::listen() {
  const auto longest_ms = static_cast<int>(beat_ns(setup_.lost_after_ns) / 1'000'000);
  while (!stopping_) {
    std::array<pollfd, 2> on{{{link_.number(), POLLIN, 0}, {wake_->number(), POLLIN, 0}}};
    if (link_.has_waiting()) on[0].events |= POLLOUT;
    ::poll(on.data(), on.size(), longest_ms);
    uint64_t count = 0;
    (void)!::read(wake_->number(), &count, sizeof count);
    const int64_t now = core::now_ns();
    (void)link_.flush();
    auto came = link_.receive();
    if (!came) return lost_supervisor(came.error().text);
    for (auto& p : *came) hear(std::move(p));
    std::unique_lock lock(mutex_);
    consequence what = state_.look(now);
    const auto mine = state_.due_beat(core::now_ns());
    follow(std::move(lock), std::move(what));
    if (mine) send(*mine);
  }
}

void process::hear(parcel p) {
  std::unique_lock lock(mutex_);
  consequence what = state_.hear(std::move(p), core::now_ns());
  follow(std::move(lock), std::move(what));
}

void process::lost_supervisor(const std::string& how) {
  std::unique_lock lock(mutex_);
  consequence what = state_.lose_supervisor(how);
  follow(std::move(lock), std::move(what));
}

void process::follow(std::unique_lock<std::mutex> lock, consequence what) {
  const auto tell = what.ended ? tell_end_ : nullptr;
  const auto note = what.note ? note_ : nullptr;
  came_.notify_all();
  lock.unlock();
  if (tell) tell(*what.ended);
  if (note) note(*what.note);
  if (what.say) send(std::move(*what.say));
}

auto process::wait(auto get) {
  std::unique_lock lock(mutex_);
  auto got = get();
  while (!got) {
    came_.wait(lock);
    got = get();
  }
  return std::move(*got);
}

uint64_t process::term() const {
  const std::lock_guard lock(mutex_);
  return state_.term();
}
bool process::leads() const {
  const std::lock_guard lock(mutex_);
  return state_.leads();
}
bool process::is_join_wanted() const {
  const std::lock_guard lock(mutex_);
  return state_.is_join_wanted();
}

std::optional<end_term> process::ending() const {
  const std::lock_guard lock(mutex_);
  return state_.ending();
}

end_term process::wait_for_end() {
  return wait([&] { return state_.end_of_term(); });
}

void process::on_end(std::function<void(const core::error&)> tell) {
  std::unique_lock lock(mutex_);
  tell_end_ = std::move(tell);
  const auto& ending = state_.ending();
  if (!ending || !tell_end_) return;
  const core::error why{ending->kind, ending->text};
  const auto now = tell_end_;
  lock.unlock();
  now(why);
}

core::result<term_order> process::next_term() {
  {
    const std::lock_guard lock(mutex_);
    tell_end_ = nullptr;
  }
  return wait([&] { return state_.next_term(); });
}

core::result<void> process::ready(const std::string& digest, uint64_t step) {
  send(cluster::ready{term(), digest, step});
  return wait([&] { return state_.started(); });
}

void process::quiet() {
  {
    const std::lock_guard lock(mutex_);
    tell_end_ = nullptr;
    note_ = nullptr;
  }
  send(cluster::quiet{term()});
}

void process::fail(const core::error& why, uint32_t lost_place) {
  (void)link_.send({failed{term(), why.kind, why.text, lost_place}, {}});
}

void process::change(uint32_t data) {
  {
    const std::lock_guard lock(mutex_);
    state_.forget_join();
  }
  send(between_steps{term(), data});
}

core::result<void> process::give(uint32_t number, const shared_descriptor& what) {
  if (what == nullptr)
    return core::refused(fmt::format("memory that processes share, number {}: wanted some, got none", number));
  send(offer{term(), number}, {what});
  return {};
}

core::result<std::map<uint32_t, shared_descriptor>> process::take(const std::vector<uint32_t>& numbers) {
  return wait([&] { return state_.take(numbers); });
}

void process::give_address(const std::string& host, uint16_t port) { send(address{term(), setup_.place, host, port}); }

core::result<std::map<uint32_t, address>> process::addresses(const std::vector<uint32_t>& places) {
  return wait([&] { return state_.addresses(places); });
}

uint64_t process::tell(std::string what) {
  const uint64_t number = ++number_;
  send(call{term(), number, std::move(what)});
  return number;
}

core::result<std::vector<answer>> process::answers(uint64_t number, size_t count) {
  if (number > number_)
    return core::refused(fmt::format("answers to call {}: wanted one of the {} that were made", number, number_));
  return wait([&] { return state_.answers(number, count); });
}

core::result<call> process::next_call() {
  return wait([&] { return state_.next_call(); });
}

void process::reply(uint64_t number, std::string what) { send(answer{term(), number, setup_.place, std::move(what)}); }

void process::on_note(std::function<void(const answer&)> hear) {
  const std::lock_guard lock(mutex_);
  note_ = std::move(hear);
}

core::result<void> process::keep(const std::string& path, uint64_t bytes, const shared_descriptor& with) {
  if (with == nullptr) return core::refused("'" + path + "': wanted the memory that holds it, got none");
  send(kept_file{path, bytes}, {with});
  return {};
}

void process::keep_whole(const std::string& folder, const std::string& written, uint64_t step) {
  send(kept_save{folder, written, step});
}

roster process::people() const {
  const std::lock_guard lock(mutex_);
  return state_.people();
}

std::vector<uint32_t> process::unanswered() const {
  const std::lock_guard lock(mutex_);
  return state_.unanswered();
}

void process::replace(const std::string& host) { send(replace_wanted{term(), host}); }

std::optional<clock_reading> process::clock() const {
  const std::lock_guard lock(mutex_);
  return state_.clock(core::now_ns());
}

}  // namespace troupe::cluster
