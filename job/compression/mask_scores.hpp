// Scores of masks that are learned: ordinary parameters of the model's table, which the optimizer updates and
// checkpoints hold. Owns their names, shapes and first values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "core/model_table.hpp"
#include "job/compression/pruning.hpp"

namespace troupe::job {

/// As DeepSpeed's layers call them: "transformer.h.0.mlp.c_fc.row_mask_scores".
std::string score_name(std::string_view module, pruned_part part);
/// Whether a parameter's name is one of these.
bool is_score_name(std::string_view name);
/// Their first values are uniform between -this and this (kaiming-uniform with a = sqrt(5)).
float first_scores_within(const core::parameter_info& scores);

/// Adds the scores of every module that `config` prunes by topk behind the parameters of `table`, and to the layer,
/// segment and unit that read them. Refused: what choose_pruning refuses.
core::result<void> add_scores(const config::job_config& config, core::model_table& table);
/// Adds those of the whole model's table to that of a tensor rank, which has them whole: each forms the gradients of
/// what it has of the weight, and these are added.
void add_scores_of(const core::model_table& whole, core::model_table& own);
/// The table without them, and without copies of tied parameters where it had some.
core::model_table without_scores(core::model_table table);

}  // namespace troupe::job
