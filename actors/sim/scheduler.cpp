#include "actors/sim/scheduler.hpp"

#include <algorithm>
#include <caf/scheduler/test_coordinator.hpp>
#include <deque>
#include <ext/pb_ds/assoc_container.hpp>
#include <ext/pb_ds/tree_policy.hpp>
#include <map>
#include <random>
#include <set>
#include <tuple>

namespace troupe::actors {
namespace {

struct waiting_message {
  int64_t due_ns = 0;
  caf::mailbox_element_ptr element;
};
struct channel {
  caf::strong_actor_ptr receiver;
  std::deque<waiting_message> messages;  // messages of the channel that are not delivered; never empty
  int64_t due_ns = 0;  // time at which the channel may deliver: that of its first message, or the end of a freeze
  bool ready = false;  // true: the channel is in `ready`; false: in `not_yet`
};
// A channel's key: receiver, sender, number of the message if it has no sender, and whether it is urgent. Actor ids
// count up within an actor system, so they are equal in every replay of a seed. Messages without a sender come from
// independent threads, so each of them has a channel of its own.
using channel_key = std::tuple<caf::actor_id, caf::actor_id, uint64_t, bool>;
using channel_map = std::map<channel_key, channel>;
/// Channels ordered by key; finds the nth in logarithmic time.
using ready_channels = __gnu_pbds::tree<channel_key, channel_map::iterator, std::less<>, __gnu_pbds::rb_tree_tag,
                                        __gnu_pbds::tree_order_statistics_node_update>;

}  // namespace

struct sim_scheduler::parts {
  caf::scheduler::test_coordinator& coordinator;
  std::mt19937_64 random;
  int64_t latency_max_ns;
  bool even;  // true: every message takes half of `latency_max_ns`, and its delivery no time
  channel_map channels;
  ready_channels ready;                               // channels that may deliver now
  std::set<std::pair<int64_t, channel_key>> not_yet;  // (virtual time from which the channel may deliver, channel)
  // [actor, flag]: virtual time until which messages to the actor are held back; if the flag is true, only its messages
  // to itself are.
  std::map<std::pair<caf::actor_id, bool>, int64_t> frozen_until_ns;
  uint64_t anonymous = 0, delivered = 0, digest = 14695981039346656037ULL;

  void note(uint64_t x) { digest = (digest ^ x) * 1099511628211ULL; }
  [[nodiscard]] int64_t now_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(coordinator.clock().now().time_since_epoch()).count();
  }
  void set_now(int64_t ns) {
    coordinator.clock().current_time = caf::actor_clock::time_point{std::chrono::nanoseconds{ns}};
  }
  [[nodiscard]] int64_t next_timer_ns() {
    const auto& all = coordinator.clock().schedule();
    return all.empty()
               ? INT64_MAX
               : std::chrono::duration_cast<std::chrono::nanoseconds>(all.begin()->first.time_since_epoch()).count();
  }

  [[nodiscard]] int64_t due_ns(const channel_key& key, const channel& c) const {
    int64_t due = c.messages.front().due_ns;
    const auto [receiver, sender, nth, urgent] = key;
    for (const bool own_mail : {false, true}) {
      const auto frozen = frozen_until_ns.find({receiver, own_mail});
      if (frozen != frozen_until_ns.end() && (!own_mail || sender == receiver)) due = std::max(due, frozen->second);
    }
    return due;
  }

  void book(caf::scheduled_actor& to, caf::mailbox_element_ptr element) {
    const caf::actor_id sender = element->sender ? element->sender->id() : 0;
    const auto it =
        channels.try_emplace({to.id(), sender, sender == 0 ? ++anonymous : 0, element->is_high_priority()}).first;
    auto& c = it->second;
    if (!c.receiver) c.receiver = caf::strong_actor_ptr{to.ctrl()};
    int64_t due = now_ns();
    if (sender != to.id() && even)
      due += std::max<int64_t>(1, latency_max_ns / 2);
    else if (sender != to.id() && latency_max_ns > 0)
      due += static_cast<int64_t>(random() % static_cast<uint64_t>(latency_max_ns));
    if (!c.messages.empty()) due = std::max(due, c.messages.back().due_ns);
    c.messages.push_back({due, std::move(element)});
    if (c.messages.size() == 1) add(it);
  }

  void add(channel_map::iterator it) {
    auto& c = it->second;
    c.due_ns = due_ns(it->first, c);
    c.ready = c.due_ns <= now_ns();
    if (c.ready)
      ready.insert({it->first, it});
    else
      not_yet.insert({c.due_ns, it->first});
  }
  void remove(channel_map::iterator it) {
    if (it->second.ready)
      ready.erase(it->first);
    else
      not_yet.erase({it->second.due_ns, it->first});
  }
  // Moves channels that may deliver by now from `not_yet` to `ready`.
  void pass_time() {
    for (const int64_t now = now_ns(); !not_yet.empty() && not_yet.begin()->first <= now;) {
      const auto it = channels.find(not_yet.begin()->second);
      remove(it);
      add(it);
    }
  }

  // Moves the messages in the mailboxes of all scheduled actors into channels, and runs actors whose mailbox is then
  // empty, so that they start or become idle.
  void absorb() {
    while (!coordinator.jobs.empty()) {
      if (auto* actor = dynamic_cast<caf::scheduled_actor*>(coordinator.jobs.front())) {
        actor->mailbox().fetch_more();
        auto& queues = actor->mailbox().queue().queues();
        while (auto e = std::get<caf::scheduled_actor::urgent_queue_index>(queues).take_front())
          book(*actor, std::move(e));
        while (auto e = std::get<caf::scheduled_actor::normal_queue_index>(queues).take_front())
          book(*actor, std::move(e));
      }
      coordinator.try_run_once();
    }
  }

  void deliver(channel_map::iterator it) {
    remove(it);
    auto receiver = it->second.receiver;
    auto element = std::move(it->second.messages.front().element);
    note(std::get<0>(it->first));
    note(std::get<1>(it->first));
    note(element->mid.integer_value());
    note(element->content().type_token());
    it->second.messages.pop_front();
    if (!even) set_now(now_ns() + 1);  // gives each delivery another time, so that spans show the order
    if (it->second.messages.empty())
      channels.erase(it);
    else
      add(it);
    ++delivered;
    receiver->enqueue(std::move(element), nullptr);
    coordinator.try_run_once();
    absorb();
  }
};

sim_scheduler::sim_scheduler(caf::actor_system& system, uint64_t seed, std::chrono::nanoseconds latency_max, bool even)
    : parts_(new parts{dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler()),
                       std::mt19937_64(seed),
                       latency_max.count(),
                       even,
                       {},
                       {},
                       {},
                       {}}) {
  parts_->set_now(3'600'000'000'000);  // not 0, because a time of 0 in a span means "not yet"
}

sim_scheduler::~sim_scheduler() {
  parts_->coordinator.clock().cancel_all();
  drain();
  parts_->coordinator.clock().cancel_all();
}

bool sim_scheduler::step(int64_t until_ns) {
  auto& p = *parts_;
  p.absorb();
  while (p.next_timer_ns() <= p.now_ns()) {
    p.coordinator.trigger_timeout();
    p.absorb();
  }
  p.pass_time();
  if (!p.ready.empty()) {
    p.deliver(p.even ? p.ready.begin()->second : p.ready.find_by_order(p.random() % p.ready.size())->second);
    return true;
  }
  const int64_t next_ns = std::min(p.next_timer_ns(), p.not_yet.empty() ? INT64_MAX : p.not_yet.begin()->first);
  if (next_ns == INT64_MAX || next_ns >= until_ns) return false;
  p.set_now(next_ns);
  return true;
}

void sim_scheduler::drain() {
  for (parts_->absorb(); !parts_->channels.empty();) parts_->deliver(parts_->channels.begin());
}

int64_t sim_scheduler::now_ns() const { return parts_->now_ns(); }

void sim_scheduler::post_later(std::chrono::nanoseconds delay, const lane_actor& to, wake what) {
  auto& clock = parts_->coordinator.clock();
  clock.schedule_message(clock.now() + delay, caf::actor_cast<caf::strong_actor_ptr>(to),
                         caf::make_mailbox_element(nullptr, caf::make_message_id(), {}, what));
}

bool sim_scheduler::hold_any(std::chrono::nanoseconds delay) {
  auto& p = *parts_;
  p.absorb();
  if (p.channels.empty()) return false;
  auto it = std::next(p.channels.begin(), static_cast<long>(p.random() % p.channels.size()));
  const int64_t until = p.now_ns() + delay.count();
  p.remove(it);
  for (auto& m : it->second.messages) m.due_ns = std::max(m.due_ns, until);
  p.add(it);
  return true;
}

void sim_scheduler::freeze(caf::actor_id whom, std::chrono::nanoseconds delay, bool own_mail) {
  auto& p = *parts_;
  p.frozen_until_ns[{whom, own_mail}] = p.now_ns() + delay.count();
  for (auto it = p.channels.begin(); it != p.channels.end(); ++it)
    if (std::get<0>(it->first) == whom) {
      p.remove(it);
      p.add(it);
    }
}

void sim_scheduler::stop(std::chrono::nanoseconds delay) { parts_->set_now(parts_->now_ns() + delay.count()); }

uint64_t sim_scheduler::num_delivered() const { return parts_->delivered; }
uint64_t sim_scheduler::digest() const { return parts_->digest; }

}  // namespace troupe::actors
