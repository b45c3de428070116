#include "cluster/process_state.hpp"

#include <algorithm>

namespace troupe::cluster {

process_state::process_state(uint32_t place, int64_t lost_after_ns, int64_t now_ns)
    : place_(place),
      lost_after_ns_(lost_after_ns),
      last_contact_ns_(now_ns),
      looked_ns_(now_ns),
      beat_due_ns_(now_ns),
      back_ns_(now_ns) {}

consequence process_state::hear(parcel p, int64_t now_ns) {
  consequence out;
  look_at_clock(now_ns);
  if (const auto* x = std::get_if<beat>(&p.what)) {
    clock_.hear(*x, now_ns);
    // This beat answers the one that this process sent at of_ns. Silence of the supervisor is counted from of_ns, not
    // from now, because the answer may have been in transit for long.
    if (x->of_ns != 0)
      answered_ns_ = std::max(answered_ns_, std::min(x->of_ns, now_ns));
    else
      is_first_beat_ = true;
  } else if (auto* x = std::get_if<begin_term>(&p.what)) {
    terms_.push_back(std::move(*x));
  } else if (auto* x = std::get_if<kept_file>(&p.what)) {
    files_[x->path] = {x->bytes, p.with.empty() ? nullptr : p.with.front(), x->place};
  } else if (auto* x = std::get_if<offer>(&p.what)) {
    if (!p.with.empty()) offers_[{x->term, x->number}] = p.with.front();
  } else if (auto* x = std::get_if<address>(&p.what)) {
    addresses_[{x->term, x->place}] = *x;
  } else if (auto* x = std::get_if<cluster::started>(&p.what)) {
    started_ = x->term;
  } else if (auto* x = std::get_if<call>(&p.what)) {
    calls_.push_back(std::move(*x));
  } else if (auto* x = std::get_if<answer>(&p.what)) {
    if (x->number == 0)
      out.note = std::move(*x);
    else
      answers_.push_back(std::move(*x));
  } else if (auto* x = std::get_if<join_wanted>(&p.what)) {
    if (x->term == term_) join_wanted_ = true;
  } else if (auto* x = std::get_if<roster>(&p.what)) {
    people_ = std::move(*x);
  } else if (auto* x = std::get_if<end_term>(&p.what)) {
    return end(*x);
  } else if (std::holds_alternative<dismissal>(p.what)) {
    over_ = core::error{core::error_kind::stopped, "the job is over"};
  }
  return out;
}

// Stores why the current term ended. Only the first reason is stored, except that the end of the run replaces the end
// of the term.
consequence process_state::end(const end_term& why) {
  consequence out;
  if (why.term > term_ && !why.is_final) {  // term `why.term` ends before this process has begun it
    std::erase_if(terms_, [&](const begin_term& t) { return t.number == why.term; });
    out.say = quiet{why.term};
    return out;
  }
  if (why.term != term_ && !why.is_final) return out;
  if (!ending_) out.ended = core::error{why.kind, why.text};
  if (!ending_ || (why.is_final && !ending_->is_final)) ending_ = why;
  return out;
}

consequence process_state::lose_supervisor(const std::string& how) {
  const core::error why{core::error_kind::peer_lost, "the supervisor's process has ended: " + how};
  if (!over_) over_ = why;
  return end({term_, true, why.kind, why.text});
}

void process_state::look_at_clock(int64_t now_ns) {
  if (std::exchange(is_first_beat_, false)) last_contact_ns_ = now_ns;
  last_contact_ns_ = std::max(last_contact_ns_, answered_ns_);
  if (back_ns_ && answered_ns_ >= *back_ns_) {
    back_ns_.reset();
    // Until now last_contact_ns_ may have been the time at which the first beat arrived, which may have been in transit
    // for long. From now on only answered beats count.
    last_contact_ns_ = answered_ns_;
  }
  is_cut_off_ = now_ns - last_contact_ns_ > give_up_ns(lost_after_ns_);
  if (now_ns - looked_ns_ > give_up_ns(lost_after_ns_)) back_ns_ = now_ns;
}

consequence process_state::look(int64_t now_ns) {
  // True if this process was suspended for so long that the other processes may have continued without it.
  const bool was_away = now_ns - looked_ns_ > give_up_ns(lost_after_ns_);
  look_at_clock(now_ns);
  looked_ns_ = now_ns;
  if (!was_away && !is_cut_off_) return {};
  if (was_away) last_contact_ns_ = now_ns;
  return end({term_, false, core::error_kind::peer_lost,
              was_away ? "this process did not run for a while" : "the supervisor was silent"});
}

std::optional<beat> process_state::due_beat(int64_t now_ns) {
  if (now_ns < beat_due_ns_) return std::nullopt;
  beat_due_ns_ = now_ns + beat_ns();
  return clock_.next(now_ns);
}

std::optional<core::error> process_state::is_over() const {
  if (ending_) return core::error{ending_->kind, ending_->text};
  return over_;
}

std::optional<core::result<term_order>> process_state::next_term() {
  // The end of a term that this process has left already, or took no part in, has no effect here.
  if (ending_ && ending_->is_final) return core::fail(ending_->kind, ending_->text);
  // A begin_term message may have been in transit for so long that its term has ended in the meantime. Therefore the
  // term begins only after the supervisor has answered a beat that this process sent after it began to run.
  if (terms_.empty() || is_cut_off_ || back_ns_) {
    if (over_) return core::fail(*over_);
    return std::nullopt;
  }
  ending_.reset();
  term_order out{std::move(terms_.front()), {}};
  terms_.pop_front();
  term_ = out.order.number;
  leads_ = out.order.seats.front().place == place_;
  join_wanted_ = false;
  // Only messages of earlier terms are removed. Messages of the new term may have come already, from processes that
  // have begun it earlier.
  const auto is_old = [&](const auto& x) { return x.term < term_; };
  const auto is_before = [&](const auto& x) { return x.first.first < term_; };
  std::erase_if(offers_, is_before);
  std::erase_if(addresses_, is_before);
  std::erase_if(calls_, is_old);
  std::erase_if(answers_, is_old);
  std::swap(out.files, files_);
  return out;
}

std::optional<core::result<void>> process_state::started() const {
  if (started_ == term_) return core::result<void>();
  if (const auto why = is_over()) return core::fail(*why);
  return std::nullopt;
}

std::optional<core::result<std::map<uint32_t, shared_descriptor>>> process_state::take(
    const std::vector<uint32_t>& numbers) {
  if (std::ranges::all_of(numbers, [&](uint32_t n) { return offers_.contains({term_, n}); })) {
    std::map<uint32_t, shared_descriptor> out;
    for (const uint32_t n : numbers) out[n] = std::move(offers_[{term_, n}]);
    return out;
  }
  if (const auto why = is_over()) return core::fail(*why);
  return std::nullopt;
}

std::optional<core::result<std::map<uint32_t, address>>> process_state::addresses(const std::vector<uint32_t>& places) {
  if (std::ranges::all_of(places, [&](uint32_t p) { return addresses_.contains({term_, p}); })) {
    std::map<uint32_t, address> out;
    for (const uint32_t p : places) out[p] = addresses_[{term_, p}];
    return out;
  }
  if (const auto why = is_over()) return core::fail(*why);
  return std::nullopt;
}

std::optional<core::result<std::vector<answer>>> process_state::answers(uint64_t number, size_t count) {
  const auto is_of = [&](const answer& a) { return a.number == number && a.term == term_; };
  awaited_.reset();
  if (static_cast<size_t>(std::ranges::count_if(answers_, is_of)) < count) {
    if (const auto why = is_over()) return core::fail(*why);
    awaited_ = {number, count};
    return std::nullopt;
  }
  std::vector<answer> out;
  for (auto& a : answers_)
    if (is_of(a)) out.push_back(std::move(a));
  std::erase_if(answers_, [&](const answer& a) { return a.number <= number; });
  return out;
}

std::vector<uint32_t> process_state::unanswered() const {
  std::vector<uint32_t> out;
  if (!awaited_) return out;
  size_t others = 0;
  for (const auto& p : people_.places) {
    if (p.place == place_ || p.count == 0) continue;
    ++others;
    if (std::ranges::none_of(answers_, [&](const answer& a) {
          return a.number == awaited_->first && a.term == term_ && a.place == p.place;
        }))
      out.push_back(p.place);
  }
  if (others != awaited_->second) out.clear();
  return out;
}

std::optional<core::result<call>> process_state::next_call() {
  while (!calls_.empty()) {
    call out = std::move(calls_.front());
    calls_.pop_front();
    if (out.term == term_) return out;
  }
  if (const auto why = is_over()) return core::fail(*why);
  return std::nullopt;
}

std::optional<end_term> process_state::end_of_term() const {
  if (ending_) return ending_;
  if (over_) return end_term{term_, true, over_->kind, over_->text};
  return std::nullopt;
}

}  // namespace troupe::cluster
