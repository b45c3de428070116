// Scores of learned masks: ordinary parameters of the model's table, which the optimizer updates and checkpoints hold.
// Owns their names, shapes and first values.
#pragma once

#include <string>
#include <string_view>

#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "core/model_table.hpp"
#include "job/compression/pruning.hpp"

namespace troupe::job {

/// Returns the name of a module's scores, as DeepSpeed's layers name them: "transformer.h.0.mlp.c_fc.row_mask_scores".
std::string score_name(std::string_view module, pruned_part part);
/// True if `name` is the name of a parameter that holds learned mask scores.
bool is_score_name(std::string_view name);
/// Returns the bound of the initial mask scores, which are drawn uniformly between -bound and bound (kaiming-uniform
/// with a = sqrt(5)).
float first_scores_within(const core::parameter_info& scores);

/// Appends the scores of every module that `config` prunes by topk to the parameters of `table`, and adds them to the
/// layer, segment and unit that read them. Refused: what choose_pruning refuses.
core::result<void> add_scores(const config::job_config& config, core::model_table& table);
/// Adds the scores of the whole model's table to the table of a tensor rank, which holds them whole. Each rank computes
/// the gradients of its part of the weight, and these gradients are added.
void add_scores_of(const core::model_table& whole, core::model_table& own);
/// Returns the table without mask scores, and, if it had some, without copies of tied parameters.
core::model_table without_scores(core::model_table table);

}  // namespace troupe::job
