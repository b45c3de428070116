// Runs `troupe checkpoint inspect`, `verify` and `diff`: shows what a checkpoint of any format contains, checks that it
// is whole, and compares two. Writes nothing.
#pragma once

#include <optional>
#include <string>

#include "apps/checkpoint/checkpoint_arguments.hpp"
#include "formats/report/diff.hpp"

namespace troupe::apps {

struct diff_arguments {
  source_arguments first;
  std::string second;
  std::optional<double> tolerance;  ///< tolerance at which tensors count as equal; empty: bits are compared
};

struct compared_checkpoints {
  formats::tensor_source first, second;
  formats::diff_report report;
};

/// Opens both checkpoints and compares them. If the tensors of one checkpoint are named by pipeline layer, they get the
/// tensor names of the other one.
core::result<compared_checkpoints> compare_checkpoints(const diff_arguments& a);

int inspect_checkpoint(const source_arguments& a, output_form form, const std::string& model_config = {});
/// Prints a file for `--map` instead of the tensors: each tensor's name, and the name that `a.map` assigns to it, or
/// else its name in the model that `model_config` or the checkpoint describes.
int print_names(const source_arguments& a, const std::string& model_config);
int verify_checkpoint_at(const source_arguments& a);
int diff_checkpoints_at(const diff_arguments& a);

}  // namespace troupe::apps
