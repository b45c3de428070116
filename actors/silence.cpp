#include "actors/silence.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "plan/kinds.hpp"
#include "plan/stage_place.hpp"

namespace troupe::actors {
namespace {

bool has_started(const step_context& c, uint32_t id) {
  return c.spans[id].start_ns.load(std::memory_order_relaxed) != 0;
}
bool has_ended(const step_context& c, uint32_t id) { return c.spans[id].end_ns.load(std::memory_order_relaxed) != 0; }

// Returns the activity of a fabric lane that has started collective `x`, and has thereby posted it. If this rank is
// among the missing ones, this rank is about to do its part. If no rank is missing, the collective is complete, and the
// message about that has not reached the lane yet. In both cases the lane works.
activity in_collective(const step_context& c, const plan::instruction& x, const missing_members& missing) {
  if (!missing) return activity::waiting;
  const auto who = missing(c.order.collective_of(x));
  const bool own = who.empty() || std::find(who.begin(), who.end(), c.plan().rank) != who.end();
  return own ? activity::working : activity::waiting;
}

// Returns the activity of a lane whose instruction `x` is running, or whose dependencies have ended.
activity in_instruction(const step_context& c, const plan::instruction& x, const missing_members& missing) {
  switch (x.lane) {
    case plan::lane::control:
    case plan::lane::writer:
    case plan::lane::io:
      return activity::asking;
    case plan::lane::fabric:
      return has_started(c, x.id) ? in_collective(c, x, missing) : activity::working;
    case plan::lane::compute:
    case plan::lane::shard:
      break;
  }
  return activity::working;
}

}  // namespace

activity activity_of(const step_context& context, const missing_members& missing) {
  auto out = activity::waiting;
  const auto& p = context.plan();
  for (uint32_t l = 0; l < plan::num_lanes; ++l)
    for (const auto& line : context.program->lines[l])
      for (const uint32_t at : line) {
        const auto& x = p.instructions[p.lanes[l][at]];
        if (has_ended(context, x.id)) continue;
        const bool under_way = has_started(context, x.id);
        if (under_way || std::ranges::all_of(x.after, [&](uint32_t on) { return has_ended(context, on); }))
          out = std::max(out, in_instruction(context, x, missing));
        if (!under_way) break;  // later instructions of the line start after this one
      }
  return out;
}

namespace {

// Returns `place` in brackets, such as " (stage 2, chunk 1)"; empty if the model is not cut into stages.
std::string in_brackets(const std::string& place) { return place.empty() ? "" : " (" + place + ")"; }

// Returns a text such as " and waits for rank 3 (stage 1)" that names the ranks that collective `x` waits for. This
// rank, which has not done its part either while it waits, is not named if other ranks are missing.
std::string absent_text(const plan::rank_plan& p, const plan::instruction& x, std::vector<uint32_t> who) {
  const auto& l = *p.layout;
  if (who.size() > 1) std::erase(who, p.rank);
  std::string out;
  for (size_t i = 0; i < who.size(); ++i) {
    out += fmt::format("{}{}", i == 0 ? " and waits for rank " : i + 1 == who.size() ? " and " : ", ", who[i]);
    const bool partner = plan::is_transfer(x.kind) && who[i] != p.rank;
    out += in_brackets(partner ? fmt::format("stage {}", plan::partner_stage(l, x)) : plan::stages_text(l, who[i]));
  }
  return out;
}

// Describes the instruction that a lane runs, or its reason to wait before it starts `x`.
std::string explain(const step_context& context, const plan::instruction& x, const missing_members& missing) {
  const auto& p = context.plan();
  std::string out = std::string(plan::name_of(x.lane)) + " lane" + in_brackets(plan::place_text(*p.layout, x)) + " ";
  if (!has_started(context, x.id)) {
    out += "waits to start " + p.describe(x.id);
    const auto on = std::ranges::find_if(x.after, [&](uint32_t id) { return !has_ended(context, id); });
    return on == x.after.end() ? out : out + " until " + p.describe(*on) + " has ended";
  }
  out += "is in " + p.describe(x.id);
  if (x.sequence == plan::none || !missing) return out;
  return out + absent_text(p, x, missing(context.order.collective_of(x)));
}

}  // namespace

std::string explain_stall(const step_context& context, const missing_members& missing) {
  const auto& p = context.plan();
  std::string out;
  for (uint32_t l = 0; l < plan::num_lanes; ++l)
    for (const auto& line : context.program->lines[l]) {
      const auto stuck = std::ranges::find_if(line, [&](uint32_t at) { return !has_ended(context, p.lanes[l][at]); });
      if (stuck == line.end()) continue;
      if (!out.empty()) out += "; ";
      out += explain(context, p.instructions[p.lanes[l][*stuck]], missing);
    }
  return out;
}

std::optional<std::chrono::nanoseconds> longest_work(step_context& context) {
  const auto& p = context.plan();
  if (p.options().mode != plan::mode::train || context.decide().skipped) return std::nullopt;
  int64_t longest = 0;
  for (const auto lane : {plan::lane::compute, plan::lane::shard})
    for (uint32_t id : p.lanes[static_cast<size_t>(lane)]) {
      const auto& span = context.spans[id];
      longest = std::max(longest,
                         span.end_ns.load(std::memory_order_relaxed) - span.start_ns.load(std::memory_order_relaxed));
    }
  return std::chrono::nanoseconds(longest);
}

pulse pulse_of(const step_context& context, const missing_members& missing, std::chrono::nanoseconds longest_work) {
  return {context.order.run, context.num_ended.load(std::memory_order_relaxed), activity_of(context, missing),
          longest_work};
}

void pulse_board::show(uint32_t rank, std::function<pulse()> source) {
  const std::lock_guard lock(mutex_);
  sources_[rank] = std::move(source);
}

void pulse_board::explain(uint32_t rank, std::function<std::string()> source) {
  const std::lock_guard lock(mutex_);
  sentences_[rank] = std::move(source);
}

std::string pulse_board::explained(uint32_t rank) const {
  const std::lock_guard lock(mutex_);
  return sentences_[rank] ? sentences_[rank]() : std::string();
}

std::vector<pulse> pulse_board::look() const {
  const std::lock_guard lock(mutex_);
  std::vector<pulse> out;
  for (const auto& source : sources_) out.push_back(source ? source() : pulse{});
  return out;
}

std::optional<std::chrono::nanoseconds> limit_of(const patience& p, activity doing,
                                                 std::chrono::nanoseconds longest_work) {
  switch (doing) {
    case activity::asking:
      return std::nullopt;
    case activity::waiting:
      return p.stall_after;
    case activity::working:
      break;
  }
  const bool measured = longest_work.count() > 0;
  return std::max({p.stall_after, measured ? p.measured_min : p.predicted_min,
                   work_factor * (measured ? longest_work : p.longest_predicted)});
}

void silence_clock::begin(int64_t now_ns) {
  since_ns_ = now_ns;
  seen_.clear();
  told_ = false;
}

silence_clock::finding silence_clock::look(int64_t now_ns, int64_t due_ns, uint64_t run, std::vector<pulse> ranks,
                                           const patience& p) {
  const bool slept = now_ns - due_ns > p.stall_after.count() / looks_per_stall;
  if (slept || ranks != seen_) {
    begin(now_ns);
    seen_ = std::move(ranks);
    return finding::fine;
  }
  auto doing = activity::waiting;
  std::chrono::nanoseconds longest_work{0};
  for (const auto& x : seen_) {
    doing = std::max(doing, x.doing_in(run));
    longest_work = std::max(longest_work, x.longest_work);
  }
  const auto limit = limit_of(p, doing, longest_work);
  if (limit && quiet(now_ns) >= *limit) return finding::stalled;
  if (limit || told_ || quiet(now_ns) < p.stall_after) return finding::fine;
  told_ = true;
  return finding::quiet;
}

}  // namespace troupe::actors
