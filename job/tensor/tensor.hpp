// How a model is cut over the tensor axis: the split of its family, and the whole model beside what one rank computes
// with. Owns the choice and its refusals; widths are models/table/tp_split.hpp's, elements core/tp_slices.hpp's.
#pragma once

#include <memory>

#include "config/sections/job_config.hpp"
#include "core/model_table.hpp"
#include "core/tp_plan.hpp"
#include "job/tensor/partition.hpp"
#include "models/table/model_spec.hpp"

namespace troupe::job {

struct chosen_tensor {         ///< of a job
  models::tensor_split split;  ///< degree 1: nothing is cut
  models::sequence_split sequence;
  core::tp_plan cut;                ///< of the parameters of `whole`
  std::vector<cut_origin> origins;  ///< [parameter] of `whole`, but for its copies: what says how it is cut
  /// The model as people and files know it. Its parameters have the numbers of the ranks' table, and where nothing is
  /// cut it is that table.
  std::shared_ptr<const core::model_table> whole;
};

/// A host's own model, cut by the policy that it declares (models/host/).
struct host_tables {
  const core::model_table* whole = nullptr;  ///< null: the configuration's model
  const core::model_table* local = nullptr;  ///< what a rank computes with, where it is cut; else null
  const core::tp_plan* cut = nullptr;        ///< likewise
};

/// The split that the configuration asks for: by its partition_config, else its preset, else attention, MLP and
/// vocabulary as the family has it. Refused (bad_input), with the key: what partition.hpp refuses, more ranks than
/// heads, inner elements or, with sharded norms, `columns` of a sample.
core::result<named_split> choose_split(const config::job_config& config, const models::model_spec& spec,
                                       const core::model_table& whole, uint64_t columns);

/// The sequence group that it asks for, of samples of `columns` tokens. Refused (bad_input), with the key: more ranks
/// than a tensor rank has heads, or than tokens.
core::result<models::sequence_split> choose_sequence(const config::job_config& config, const models::model_spec& spec,
                                                     const models::tensor_split& tensor, uint64_t columns);

/// Refused (bad_input), with the key: more pieces than rows of what tensor ranks add up in `local`, a rank's table; any
/// where nothing of it is a product's.
core::result<void> check_exchange_pieces(const config::job_config& config, const core::model_table& local);

}  // namespace troupe::job
