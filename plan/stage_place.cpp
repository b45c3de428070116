#include "plan/stage_place.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "plan/kinds.hpp"
#include "plan/stages.hpp"

namespace troupe::plan {
namespace {

std::string list_text(const std::vector<uint32_t>& numbers) {
  std::string out;
  for (size_t i = 0; i < numbers.size(); ++i)
    out += fmt::format("{}{}", i == 0 ? "" : i + 1 == numbers.size() ? " and " : ", ", numbers[i]);
  return out;
}

}  // namespace

std::vector<uint32_t> stages_of(const job_layout& l, uint32_t pipeline) {
  std::vector<uint32_t> out;
  for (uint32_t s = 0; s < num_stages(l); ++s)
    if (pipeline_of_stage(l, s) == pipeline) out.push_back(s);
  return out;
}

uint32_t stage_served(const job_layout& l, const operation& x) {
  // The gather set of a unit's parameters has the unit's number; sets of persistent parameters have higher numbers.
  const subject_type of = subject_of(x);
  const bool has_stage = of == subject_type::unit || of == subject_type::gather_set;
  return has_stage && x.subject < l.stage_of_unit.size() ? l.stage_of_unit[x.subject] : none;
}

uint32_t partner_stage(const job_layout& l, const operation& x) {
  const uint32_t own = l.stage_of_unit[x.subject];
  return meets_next_stage(x) ? own + 1 : own - 1;
}

bool leads_its_stage(const job_layout& l, uint32_t rank) {
  return l.options.mesh.position(rank, core::axis_set{core::axis::pipeline}.complement()) == 0;
}

std::string stages_text(const job_layout& l, uint32_t rank) {
  if (pipeline_ranks(l) == 1) return "";
  const auto own = stages_of(l, l.options.mesh.pipeline_at(rank));
  return (own.size() == 1 ? "stage " : "stages ") + list_text(own);
}

std::string rank_text(const job_layout& l, uint32_t rank) {
  const auto stages = stages_text(l, rank);
  return fmt::format("rank {}{}", rank, stages.empty() ? "" : ", " + stages);
}

std::string place_text(const job_layout& l, const operation& x) {
  const uint32_t stage = pipeline_ranks(l) == 1 ? none : stage_served(l, x);
  if (stage == none) return "";
  const auto beside = stages_of(l, pipeline_of_stage(l, stage));
  std::string out = fmt::format("stage {}", stage);
  if (beside.size() > 1) out += fmt::format(", chunk {}", std::ranges::find(beside, stage) - beside.begin());
  return out;
}

}  // namespace troupe::plan
