// Makes the compression of a run's checkpoint permanent: rounds weights to their quantisation grids, multiplies them by
// their masks, removes rows and columns of related modules, and updates config.json. Leaves the changes of tensors to
// compression/files/cleaned_source.hpp.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "apps/checkpoint/described_checkpoint.hpp"
#include "checkpoint/convert/trained_grid.hpp"
#include "job/compression/clean.hpp"

namespace troupe::apps {

struct cleaned_checkpoint {
  described_checkpoint now;  ///< the cleaned tensors and the changed description of their model
  std::shared_ptr<const formats::tensor_source> before;
  std::shared_ptr<const job::cleaning> done;
  uint64_t elements_before = 0, elements = 0;  ///< numbers of weights before and after the cleaning
};

/// Cleans the checkpoint according to the configuration of its run. Refused: a checkpoint without configuration, one
/// that compresses nothing or is clean already, and what plan_cleaning refuses.
core::result<cleaned_checkpoint> clean(described_checkpoint from);

/// Returns, by tensor name, the quantization grids that the run trained the weights on, which contain the cleaned
/// values. Reads the weights before cleaning. A grid has no scales if it is not symmetric, or if the cleaning removed
/// inputs or outputs so that a scale no longer covers the same elements.
core::result<std::map<std::string, checkpoint::trained_grid>> trained_grids(const cleaned_checkpoint& c);

/// Prints a row for each changed module, and the new widths of config.json, to standard output.
void print_cleaning(const cleaned_checkpoint& c);

}  // namespace troupe::apps
