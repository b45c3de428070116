// Owns the positions of a step's ranks and instructions in its pipeline, as numbers and as text. The layout stores
// which units make a stage and which rank computes it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/rank_plan.hpp"

namespace troupe::plan {

/// Number of pipeline ranks over which the model is divided; 1 if every rank has all stages.
inline uint32_t pipeline_ranks(const job_layout& l) { return l.options.mesh.degree(core::axis::pipeline); }

/// Returns the stages of the ranks of a pipeline coordinate, in the model's order; chunk c of such a rank is element c.
std::vector<uint32_t> stages_of(const job_layout& l, uint32_t pipeline);

/// Returns the stage that an instruction works for; `none` for an instruction of the whole rank: an update, the vote, a
/// bucket.
uint32_t stage_served(const job_layout& l, const operation& x);

/// Returns the pipeline stage at the other end of a send or receive.
uint32_t partner_stage(const job_layout& l, const operation& x);

/// True if `rank` is the first of the ranks that compute the same stages. The ranks for which this is true form one
/// copy of the model.
bool leads_its_stage(const job_layout& l, uint32_t rank);

/// Returns text such as "stage 1" or "stages 0 and 2"; empty if the model has one pipeline rank.
std::string stages_text(const job_layout& l, uint32_t rank);

/// Returns text such as "rank 3, stage 1"; "rank 3" if the model has one pipeline rank.
std::string rank_text(const job_layout& l, uint32_t rank);

/// Returns text such as "stage 2", or "stage 2, chunk 1" if a rank has several; empty for an instruction that works for
/// no stage, or if the model has one pipeline rank.
std::string place_text(const job_layout& l, const operation& x);

}  // namespace troupe::plan
