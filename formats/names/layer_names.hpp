// Renames the layers of a pipeline to the names in the model that was split: by prefixes that reshape() stored in the
// checkpoint, or by a list of the model's names. Owns the meaning of names that begin with a layer's number; leaves
// rules that a person writes to name_rules.hpp.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "formats/source/tensor_source.hpp"

namespace troupe::formats {

/// Key in a checkpoint's client state. Its value has, for each pipeline layer, the prefix of the layer's parameter
/// names before the model was split into a pipeline.
inline constexpr std::string_view layer_prefixes_key = "pipeline_layer_prefixes";
/// Prefix of modules that several layers of a pipeline share: `tied_modules.embed.weight`.
inline constexpr std::string_view tied_modules = "tied_modules.";

/// A tensor's place in a pipeline: `3.mlp.bias` is `mlp.bias` of layer 3.
struct layer_place {
  uint32_t layer = 0;
  std::string key;
};

/// Returns the layer and the rest of a name that begins with a layer's number; nothing for any other name.
std::optional<layer_place> layer_place_of(std::string_view name);

/// A parameter that a model requires: its name and shape.
struct wanted_tensor {
  std::string name;
  std::vector<int64_t> shape;
};

/// Returns the parameters of a source, in the order of its model if that is known, else ascending by name.
std::vector<wanted_tensor> parameters_of(const tensor_source& s);

/// Returns the source with `to` applied to the names of tensors, tied names and the parameters' order. Refused: two
/// tensors whose new names are equal.
core::result<tensor_source> renamed(tensor_source s, const std::function<std::string(const std::string&)>& to);

/// Restores the original names of pipeline layers from the prefixes in the client state, and removes the prefixes from
/// there. Sets has_layer_names if some layers have no prefix. Readers of folders that may contain a pipeline call this
/// function as their last step.
core::result<tensor_source> with_kept_names(tensor_source pipeline);

/// Returns the source with the names of `wanted`, which must be in the model's order. Each layer in turn must have,
/// under one prefix, the next wanted parameter, only wanted parameters, and all with the wanted shapes; modules that
/// stages share may match at any position. Returns the source unchanged if its layers have names already or do not
/// match.
core::result<tensor_source> named_by_layers(tensor_source pipeline, std::span<const wanted_tensor> wanted);

/// Returns the first names of a list, at most `most`, for messages: `a, b, c, d and 9 more`.
std::string first_names(const std::vector<std::string>& names, size_t most = 4);

/// Returns the error for a pipeline that named_by_layers() could not name: the wanted names, the names in the pipeline,
/// and how a person can supply the names.
core::error unnamed_layers(const tensor_source& pipeline, std::span<const wanted_tensor> wanted);

}  // namespace troupe::formats
