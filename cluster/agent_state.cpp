#include "cluster/agent_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cluster/silence.hpp"
#include "core/system/signal_table.hpp"

namespace troupe::cluster {

namespace {

/// Returns the number of the process that a message concerns; nothing if the message concerns no single process.
std::optional<uint32_t> place_in(const message& m) {
  if (const auto* x = std::get_if<start_place>(&m)) return x->place;
  if (const auto* x = std::get_if<kill_place>(&m)) return x->place;
  if (const auto* x = std::get_if<signalled>(&m)) return x->place;
  if (const auto* x = std::get_if<passed>(&m)) return x->place;
  return std::nullopt;
}

}  // namespace

std::vector<agent_action> agent_state::take() { return std::exchange(actions_, {}); }

core::result<void> agent_state::hear(message m, int64_t now_ns) {
  if (auto* x = std::get_if<job_order>(&m)) {
    if (order_) return core::fail(error_kind::mismatch, "an agent: wanted one job, got another");
    order_ = *x;
    actions_.emplace_back(std::move(*x));
    return {};
  }
  if (const auto* x = std::get_if<machine_question>(&m); x != nullptr && !order_) actions_.emplace_back(*x);
  if (std::holds_alternative<dismissal>(m) && !order_) is_let_go_ = true;
  if (const auto* x = std::get_if<job_over>(&m)) {
    code_ = x->code;
    over_ns_ = now_ns;
    actions_.emplace_back(let_end{x->why, x->goes_on});
  }
  if (!order_) return {};
  if (const auto place = place_in(m); place && std::ranges::find(order_->places, *place) == order_->places.end())
    return core::fail(error_kind::mismatch, fmt::format("an agent: wanted a place of this machine, got {}", *place));
  if (const auto* x = std::get_if<start_place>(&m)) actions_.emplace_back(*x);
  if (const auto* x = std::get_if<kill_place>(&m)) actions_.emplace_back(*x);
  if (const auto* x = std::get_if<signalled>(&m)) actions_.emplace_back(*x);
  if (const auto* x = std::get_if<kept_save>(&m)) saves_.whole(x->folder, x->written);
  if (const auto* x = std::get_if<passed>(&m)) {
    TROUPE_ASSIGN(auto inner, decode(x->what));
    pass_down(x->place, std::move(inner));
  }
  return {};
}

void agent_state::pass_down(uint32_t place, message m) {
  std::vector<shared_descriptor> with;
  if (const auto* x = std::get_if<begin_term>(&m)) term_ = *x;
  // Prints on this machine's console, too, why the term ends, so that users of any machine see which link was lost.
  if (const auto* x = std::get_if<end_term>(&m); x != nullptr && !x->is_final && x->term > ended_term_) {
    ended_term_ = x->term;
    actions_.emplace_back(tell_people{fmt::format("term {} ends, another one follows: {}", x->term, x->text)});
  }
  if (const auto* x = std::get_if<kept_file>(&m)) {
    const auto all = saves_.of(x->path.substr(0, x->path.find_last_of('/')));
    if (const auto at = all.find(x->path); at != all.end()) with = at->second->with;
  }
  actions_.emplace_back(tell_process{place, {std::move(m), std::move(with)}});
}

// Handles a message of a process of this machine. Descriptors cannot be sent to another machine: an offer is passed to
// the term's other processes on this machine only, and the descriptors of a file of a save are stored here.
void agent_state::hear_process(uint32_t place, parcel p) {
  if (const auto* x = std::get_if<offer>(&p.what)) {
    if (!term_ || x->term != term_->number) return;
    for (const seat& s : term_->seats)
      if (s.machine == order_->machine && s.place != place) actions_.emplace_back(tell_process{s.place, p});
    return;
  }
  if (const auto* x = std::get_if<kept_file>(&p.what))
    saves_.add(x->path, x->bytes, std::move(p.with), order_->machine);
  // The save is marked here at once: the supervisor's message about it may come later than files of the next saves.
  if (const auto* x = std::get_if<kept_save>(&p.what)) saves_.whole(x->folder, x->written);
  tell(passed{place, encode(p.what)});
}

void agent_state::take_signal(int number) {
  tell(signalled{number});
  if (!core::ends_run(number)) return;
  if (!order_) code_ = 128 + number;
  wanted_code_ = 128 + number;
}

// Does nothing before the agent has a job: until then the supervisor may be silent for any time.
core::result<void> agent_state::look(int64_t now_ns, bool something_came) {
  if (!order_) return {};
  // True if this process was suspended: it could not receive messages, so the supervisor may have sent some.
  const bool was_away = now_ns - looked_ns_ > order_->lost_after_ns / 2;
  if (something_came || was_away) last_contact_ns_ = now_ns;
  looked_ns_ = now_ns;
  if (now_ns - last_contact_ns_ > order_->lost_after_ns && !code_)
    return core::fail(lost(fmt::format("was silent for {:.1f} s", double(now_ns - last_contact_ns_) / 1e9)));
  if (now_ns < beat_ns_) return {};
  beat_ns_ = now_ns + cluster::beat_ns(order_->lost_after_ns);
  tell(beat{});
  return {};
}

}  // namespace troupe::cluster
