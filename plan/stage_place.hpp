// Where the ranks and instructions of a step stand in its pipeline, in numbers and in words for people. Owns the words;
// which units make a stage, and which rank computes it, is the layout's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/rank_plan.hpp"

namespace troupe::plan {

/// Ranks that a pipeline is cut over; 1 where the model is whole on every rank.
inline uint32_t pipeline_ranks(const job_layout& l) { return l.options.mesh.degree(core::axis::pipeline); }

/// The stages of the ranks of a pipeline coordinate, in the model's order: chunk c of such a rank is the c-th.
std::vector<uint32_t> stages_of(const job_layout& l, uint32_t pipeline);

/// The stage that an instruction works for; `none` where it is of the whole rank: an update, the vote, a bucket.
uint32_t stage_served(const job_layout& l, const operation& x);

/// At the other end of a send or receive.
uint32_t partner_stage(const job_layout& l, const operation& x);

/// `rank` is first among the ranks that compute what it computes; those ranks together are one copy of the model.
bool leads_its_stage(const job_layout& l, uint32_t rank);

/// "stage 1", "stages 0 and 2"; empty where the model is not cut.
std::string stages_text(const job_layout& l, uint32_t rank);

/// "rank 3, stage 1"; "rank 3" where the model is not cut.
std::string rank_text(const job_layout& l, uint32_t rank);

/// "stage 2", "stage 2, chunk 1" where a rank has several; empty for an instruction without a stage, or without a cut.
std::string place_text(const job_layout& l, const operation& x);

}  // namespace troupe::plan
