// A checkpoint of a compressed run with the compression made permanent: grids and masks in the weights, related modules
// cut, optimizer states cut likewise. Owns where masks and scores are read; leaves the choice to
// job/compression/clean.hpp and the changes of tensors to checkpoint/convert/cut_source.hpp. No Torch.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "checkpoint/source/tensor_source.hpp"
#include "job/compression/clean.hpp"

namespace troupe::compression {

struct cleaned_source {  ///< a checkpoint that is computed from another one when it is read
  checkpoint::tensor_source now;
  std::shared_ptr<const checkpoint::tensor_source> before;
  std::shared_ptr<const job::cleaning> done;
  uint64_t elements_before = 0, elements = 0;  ///< numbers of elements of all weights, before the cleaning and after it
};

/// Returns `from` as `config`, the configuration of its run, has compressed it after the number of updates that `from`
/// states; `table` is the table of the model, without scores of masks. Errors: a checkpoint of which nothing was
/// compressed yet, and those of plan_cleaning.
core::result<cleaned_source> clean_source(checkpoint::tensor_source from, const config::job_config& config,
                                          core::model_table table, job::widths_said said);

/// Returns the master weights of a parameter, or the weights of a frozen one. Errors: mismatch if `from` has no
/// parameter of that name; io.
core::result<std::vector<float>> whole_weight(const checkpoint::tensor_source& from, const std::string& name);

}  // namespace troupe::compression
