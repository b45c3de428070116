#include "sim/fault.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "core/text.hpp"
#include "plan/kinds.hpp"
#include "sim/names.hpp"

namespace troupe::sim {
namespace {

using actors::sim_fault;
using actors::sim_fault_kind;
using actors::sim_moment;

std::string_view name_of(fault::effect e) {
  constexpr std::string_view names[] = {"kill", "freeze",       "freeze_disk", "slow",      "slow_disk",
                                        "late", "late_message", "lose",        "full_disk", "cut"};
  return names[static_cast<size_t>(e)];
}

/// An instruction of a rank's plan in a step: its lane and its position in the lane's order.
struct found_instruction {
  uint64_t step = 0;
  uint32_t rank = 0;
  plan::lane lane = plan::lane::compute;
  uint32_t position = 0, id = 0;
};

template <class Place>
bool is_at(const fault::place& p) {
  return std::holds_alternative<Place>(p);
}

}  // namespace

uint32_t stage_of_faults::ranks() const {
  size_t most = 0;
  for (const auto& which : plans) most = std::max(most, which.size());
  return static_cast<uint32_t>(most);
}

const plan::job_layout& stage_of_faults::layout() const {
  const auto some = std::ranges::find_if(plans, [](const auto& which) { return !which.empty(); });
  return *some->front()->layout;
}

uint32_t stage_of_faults::hosts() const {
  uint32_t last = 0;
  for (uint32_t r = 0; r < ranks(); ++r) last = std::max(last, host_of(r));
  return last + 1;
}

/// Translates one fault for one world.
class fault::translation {
 public:
  translation(const fault& f, const stage_of_faults& world) : f_(f), world_(world) {}

  core::result<std::vector<sim_fault>> run() {
    TROUPE_TRY(check());
    if (f_.is_lasting()) return std::vector<sim_fault>{};
    if (f_.effect_ == effect::full_disk) return full_disk();
    if (!f_.instruction_.empty()) return f_.effect_ == effect::lose ? lost() : slow_instructions();
    std::vector<sim_fault> out;
    TROUPE_ASSIGN(const auto ranks, ranks_of_fault());
    for (const uint32_t r : ranks) {
      if (f_.effect_ == effect::slow) {
        for (const auto lane : {plan::lane::compute, plan::lane::shard}) out.push_back(slow_lane(r, lane));
        continue;
      }
      sim_fault x;
      x.kind = kind();
      x.rank = r;
      x.delay = f_.delay_;
      x.with_lanes = true;
      TROUPE_TRY(set_moment(x));
      if (f_.effect_ == effect::cut) {
        TROUPE_ASSIGN(x.communicators, communicators_of_link());
      }
      out.push_back(std::move(x));
    }
    return out;
  }

  /// Checks the place, the moment and the numbers of the fault.
  core::result<void> check() const {
    const bool on_link = is_at<link>(f_.place_), named = !f_.instruction_.empty();
    if (!(std::isfinite(f_.factor_) && f_.factor_ > 0))
      return refuse("wanted a factor above 0, got " + core::number_text(f_.factor_));
    if (f_.delay_.count() < 0 || (f_.at_ && f_.at_->count() < 0)) return refuse("wanted times of at least 0");
    if (f_.step_ && (*f_.step_ == 0 || *f_.step_ > world_.steps.size()))
      return refuse(fmt::format("wanted one of the steps 1 to {}, got {}", world_.steps.size(), *f_.step_));
    if (const auto* r = std::get_if<rank>(&f_.place_)) TROUPE_TRY(check_rank(r->number));
    if (f_.on_) TROUPE_TRY(check_rank(*f_.on_));
    if (const auto* h = std::get_if<host>(&f_.place_)) TROUPE_TRY(check_host(h->number));
    if (const auto* l = std::get_if<link>(&f_.place_)) {
      TROUPE_TRY(check_host(l->from));
      TROUPE_TRY(check_host(l->to));
      if (l->from == l->to) return refuse("wanted a link between two hosts, got one host");
    }
    if (f_.on_ && !named) return refuse("on() is for faults that name an instruction");
    if (f_.is_lasting() && (f_.step_ || f_.at_ || !f_.when_.empty()))
      return refuse(on_link ? "a link has one speed for the whole run: it has no moment"
                            : "the disk has one speed for the whole run: it has no moment");
    if (f_.at_ && (f_.step_ || !f_.when_.empty())) return refuse("at() cannot be combined with another moment");
    if (f_.at_ && (named || f_.effect_ == effect::full_disk)) return refuse("wanted a step, got a time");
    if (!f_.when_.empty() && !(is_at<rank>(f_.place_) && (f_.effect_ == effect::kill || f_.effect_ == effect::freeze)))
      return refuse("when() is for killing and freezing a rank; choose a step or a time");
    return {};
  }

  [[nodiscard]] tl::unexpected<core::error> refuse(const std::string& why) const {
    return core::refused("fault " + f_.describe() + ": " + why);
  }

 private:
  [[nodiscard]] core::result<void> check_rank(uint32_t r) const {
    if (r >= world_.ranks()) return refuse(fmt::format("wanted one of {} ranks, got rank {}", world_.ranks(), r));
    return {};
  }
  [[nodiscard]] core::result<void> check_host(uint32_t h) const {
    if (h >= world_.hosts())
      return refuse(fmt::format("wanted one of {} hosts{}, got host {}", world_.hosts(),
                                world_.hosts_of_ranks.empty() ? " (ranks_per_host)" : "", h));
    return {};
  }

  [[nodiscard]] sim_fault_kind kind() const {
    switch (f_.effect_) {
      case effect::kill:
        return sim_fault_kind::kill_rank;
      case effect::freeze:
        return sim_fault_kind::freeze_rank;
      case effect::freeze_disk:
        return sim_fault_kind::freeze_disk;
      case effect::late_message:
        return sim_fault_kind::late_message;
      case effect::slow:
      case effect::slow_disk:
      case effect::late:
        return sim_fault_kind::slow_lane;
      case effect::lose:
        return sim_fault_kind::silence;
      case effect::full_disk:
        return sim_fault_kind::executor_error;
      case effect::cut:
        return sim_fault_kind::cut_link;
    }
    return sim_fault_kind::none;
  }

  // Returns the ranks at the fault's place; rank 0 for a fault that belongs to no rank.
  [[nodiscard]] core::result<std::vector<uint32_t>> ranks_of_fault() const {
    if (const auto* r = std::get_if<rank>(&f_.place_)) return std::vector<uint32_t>{r->number};
    const auto* h = std::get_if<host>(&f_.place_);
    if (h == nullptr) return std::vector<uint32_t>{0};
    std::vector<uint32_t> out;
    for (uint32_t r = 0; r < world_.ranks(); ++r)
      if (world_.host_of(r) == h->number) out.push_back(r);
    return out;
  }

  core::result<std::vector<uint32_t>> communicators_of_link() const {
    auto out = f_.communicators_in(world_);
    if (out.empty()) return refuse("no collective has members on both hosts");
    return out;
  }

  core::result<void> set_moment(sim_fault& x) const {
    if (!f_.when_.empty()) {
      TROUPE_ASSIGN(const auto all, find(f_.when_, x.rank, false));
      x.moment = sim_moment::instruction;
      x.run = all.front().step;
      x.lane = all.front().lane;
      x.position = all.front().position;
    } else if (f_.at_) {
      x.moment = sim_moment::time;
      x.at_ns = f_.at_->count();
      x.run = actors::any_run;
    } else {
      x.moment = sim_moment::run;
      x.run = f_.step_.value_or(1);
    }
    return {};
  }

  [[nodiscard]] sim_fault slow_lane(uint32_t r, plan::lane lane) const {
    sim_fault x;
    x.kind = sim_fault_kind::slow_lane;
    x.rank = r;
    x.lane = lane;
    x.run = f_.step_.value_or(actors::any_run);
    x.factor = f_.factor_;
    if (f_.at_) {
      x.moment = sim_moment::time;
      x.at_ns = f_.at_->count();
    }
    return x;
  }

  core::result<std::vector<sim_fault>> slow_instructions() const {
    TROUPE_ASSIGN(const auto all, find(f_.instruction_, f_.on_, true));
    std::vector<sim_fault> out;
    for (const auto& i : all) {
      const plan::instruction& x = plan_in(i.step, i.rank).instructions[i.id];
      if (i.lane == plan::lane::fabric)
        return refuse(
            "a collective takes the time of its link; slow the link between two hosts, or an instruction "
            "before it");
      if (plan::ends_late(x)) return refuse("a checkpoint is written at the speed of the disk; use slow_disk()");
      sim_fault f;
      f.kind = sim_fault_kind::slow_lane;
      f.moment = sim_moment::instruction;
      f.run = i.step;
      f.rank = i.rank;
      f.lane = i.lane;
      f.position = i.position;
      f.factor = f_.factor_;
      f.delay = f_.delay_;
      out.push_back(std::move(f));
    }
    return out;
  }

  core::result<std::vector<sim_fault>> lost() const {
    TROUPE_ASSIGN(const auto all, find(f_.instruction_, f_.on_, true));
    return std::vector<sim_fault>{at_instruction(all.front())};
  }

  // Returns the fault at the first instruction that writes to a disk.
  core::result<std::vector<sim_fault>> full_disk() const {
    const uint32_t r = std::get<rank>(f_.place_).number;
    for (uint64_t step = f_.step_.value_or(1); step <= f_.step_.value_or(world_.steps.size()); ++step) {
      const auto& p = plan_in(step, r);
      for (const auto& x : p.instructions) {
        if (x.kind != plan::kind::write && x.kind != plan::kind::swap_out) continue;
        sim_fault out = at_instruction(place_in(p, step, r, x.id));
        out.error = core::error_kind::no_space;
        out.text = fmt::format("simulated: the disk of rank {} is full", r);
        return std::vector<sim_fault>{std::move(out)};
      }
    }
    return refuse("the rank writes to no disk in any of these steps");
  }

  [[nodiscard]] sim_fault at_instruction(const found_instruction& i) const {
    sim_fault out;
    out.kind = kind();
    out.moment = sim_moment::instruction;
    out.run = i.step;
    out.rank = i.rank;
    out.lane = i.lane;
    out.position = i.position;
    return out;
  }

  [[nodiscard]] const plan::rank_plan& plan_in(uint64_t step, uint32_t r) const {
    return *world_.plans[static_cast<size_t>(world_.steps[step - 1])][r];
  }
  static found_instruction place_in(const plan::rank_plan& p, uint64_t step, uint32_t rank, uint32_t id) {
    const auto lane = p.instructions[id].lane;
    const auto& order = p.lanes[static_cast<size_t>(lane)];
    const auto at = static_cast<uint32_t>(std::ranges::find(order, id) - order.begin());
    return {step, rank, lane, at, id};
  }

  // Returns the instructions of a name in the chosen step, else in all steps: on `only`, else on all ranks; at least
  // one, by step and rank. Instructions that no executor runs are refused if the fault needs one.
  core::result<std::vector<found_instruction>> find(const std::string& name, std::optional<uint32_t> only,
                                                    bool has_executor) const {
    std::vector<found_instruction> out;
    std::set<std::string> names;
    std::map<const plan::rank_plan*, std::vector<uint32_t>> named;  // instructions of the name in each plan
    for (uint64_t step = f_.step_.value_or(1); step <= f_.step_.value_or(world_.steps.size()); ++step)
      for (uint32_t r = 0; r < world_.ranks(); ++r) {
        if (only && r != *only) continue;
        const auto& p = plan_in(step, r);
        const auto [known, is_new] = named.try_emplace(&p);
        for (const auto& x : p.instructions) {
          if (!is_new) break;
          std::string described = p.describe(x.id);
          if (is_named(described, name)) {
            if (x.lane == plan::lane::control)
              return refuse(fmt::format("'{}' is on the control lane, {}", described,
                                        has_executor ? "which does no work" : "whose times the log lacks"));
            known->second.push_back(x.id);
          }
          names.insert(std::move(described));
        }
        for (const uint32_t id : known->second) out.push_back(place_in(p, step, r, id));
      }
    if (!out.empty()) return out;
    const std::vector<std::string> all(names.begin(), names.end());
    return refuse(fmt::format("no instruction of the chosen ranks and steps is named '{}'; the nearest one is '{}'",
                              name, nearest_name(all, name)));
  }

  const fault& f_;
  const stage_of_faults& world_;
};

fault fault::in_step(uint64_t number) const {
  fault out = *this;
  out.step_ = number;
  return out;
}
fault fault::at(std::chrono::nanoseconds time) const {
  fault out = *this;
  out.at_ = time;
  return out;
}
fault fault::when(std::string instruction) const {
  fault out = *this;
  out.when_ = std::move(instruction);
  return out;
}
fault fault::on(rank where) const {
  fault out = *this;
  out.on_ = where.number;
  return out;
}

std::string fault::describe() const {
  std::string out(name_of(effect_));
  const auto add = [&](const std::string& text) { out.append(" ").append(text); };
  if (!instruction_.empty()) add("'" + instruction_ + "'");
  if (const auto* r = std::get_if<rank>(&place_)) add(fmt::format("rank {}", r->number));
  if (const auto* h = std::get_if<host>(&place_)) add(fmt::format("host {}", h->number));
  if (const auto* l = std::get_if<link>(&place_)) add(fmt::format("link of hosts {} and {}", l->from, l->to));
  if (factor_ != 1) add("by " + core::number_text(factor_));
  if (delay_ == for_ever)
    add("for ever");
  else if (delay_.count() != 0)
    add(fmt::format("for {} ns", delay_.count()));
  if (on_) add(fmt::format("on rank {}", *on_));
  if (step_) add(fmt::format("in step {}", *step_));
  if (at_) add(fmt::format("at {} ns", at_->count()));
  if (!when_.empty()) add("when '" + when_ + "' starts");
  return out;
}

bool fault::is_lasting() const {
  return effect_ == effect::slow_disk || (effect_ != effect::cut && is_at<link>(place_));
}

std::vector<uint32_t> fault::communicators_in(const stage_of_faults& world) const {
  const auto& ends = std::get<link>(place_);
  const auto& communicators = world.communicators();
  std::vector<uint32_t> out;
  for (uint32_t c = 0; c < communicators.size(); ++c) {
    const auto& members = communicators[c].members;
    const auto is_on = [&](uint32_t h) {
      return std::ranges::any_of(members, [&](uint32_t r) { return world.host_of(r) == h; });
    };
    if (is_on(ends.from) && is_on(ends.to)) out.push_back(c);
  }
  return out;
}

core::result<std::vector<actors::sim_fault>> fault::faults_in(const stage_of_faults& world) const {
  return translation(*this, world).run();
}

core::result<void> fault::apply_to(actors::sim_options& options, const stage_of_faults& world) const {
  if (!is_lasting()) return {};
  const translation here(*this, world);
  TROUPE_TRY(here.check());
  if (effect_ == effect::slow_disk) {
    options.costs.disk_bytes_per_s /= factor_;
    options.costs.disk_read_bytes_per_s /= factor_;
    options.costs.disk_latency_s *= factor_;
    return {};
  }
  const auto communicators = communicators_in(world);
  for (const uint32_t c : communicators) {
    options.links[c].latency_us = options.links[c].latency_us * factor_ + double(delay_.count()) / 1e3;
    options.links[c].bytes_per_second /= factor_;
    if (c < options.curves.size())
      for (auto& [kind, curve] : options.curves[c]) curve.slow(factor_, delay_.count());
  }
  if (communicators.empty()) return here.refuse("no collective has members on both hosts");
  return {};
}

fault kill(rank where) { return {fault::effect::kill, where}; }
fault kill(host where) { return {fault::effect::kill, where}; }

fault freeze(rank where, std::chrono::nanoseconds time) {
  fault out(fault::effect::freeze, where);
  out.delay_ = time;
  return out;
}
fault freeze(host where, std::chrono::nanoseconds time) {
  fault out(fault::effect::freeze, where);
  out.delay_ = time;
  return out;
}
fault freeze_disk(std::chrono::nanoseconds time) {
  fault out(fault::effect::freeze_disk, std::monostate{});
  out.delay_ = time;
  return out;
}

fault slow(rank where, double factor) {
  fault out(fault::effect::slow, where);
  out.factor_ = factor;
  return out;
}
fault slow(host where, double factor) {
  fault out(fault::effect::slow, where);
  out.factor_ = factor;
  return out;
}
fault slow(link where, double factor) {
  fault out(fault::effect::slow, where);
  out.factor_ = factor;
  return out;
}
fault slow(std::string instruction, double factor) {
  fault out(fault::effect::slow, std::monostate{}, std::move(instruction));
  out.factor_ = factor;
  return out;
}
fault slow_disk(double factor) {
  fault out(fault::effect::slow_disk, std::monostate{});
  out.factor_ = factor;
  return out;
}

fault late(std::string instruction, std::chrono::nanoseconds time) {
  fault out(fault::effect::late, std::monostate{}, std::move(instruction));
  out.delay_ = time;
  return out;
}
fault late(link where, std::chrono::nanoseconds time) {
  fault out(fault::effect::late, where);
  out.delay_ = time;
  return out;
}
fault cut(link where, std::chrono::nanoseconds time) {
  fault out(fault::effect::cut, where);
  out.delay_ = time;
  return out;
}
fault late_message(std::chrono::nanoseconds time) {
  fault out(fault::effect::late_message, std::monostate{});
  out.delay_ = time;
  return out;
}

fault lose(std::string instruction) { return {fault::effect::lose, std::monostate{}, std::move(instruction)}; }
fault full_disk(rank where) { return {fault::effect::full_disk, where}; }

}  // namespace troupe::sim
