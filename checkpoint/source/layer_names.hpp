// Gives the layers of a pipeline the names that they have in the model it was cut from: by prefixes that reshape()
// stored with them, or by a list of the model's names. Owns names that begin with a layer's number; rules that a person
// writes are name_rules.hpp's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// In a folder's client state: by layer what stood in front of its keys before the model became a pipeline.
inline constexpr std::string_view layer_prefixes_key = "pipeline_layer_prefixes";
/// In front of what several layers of a pipeline share: `tied_modules.embed.weight`.
inline constexpr std::string_view tied_modules = "tied_modules.";

/// A tensor's place in a pipeline: `3.mlp.bias` is `mlp.bias` of layer 3.
struct layer_place {
  uint32_t layer = 0;
  std::string key;
};

/// Nothing where no layer's number stands in front.
std::optional<layer_place> layer_place_of(std::string_view name);

/// A parameter that somebody looks for.
struct wanted_tensor {
  std::string name;
  std::vector<int64_t> shape;
};

/// A source's own parameters, in the order of its model where that is known.
std::vector<wanted_tensor> parameters_of(const tensor_source& s);

/// The same source with other names: of tensors, tied names and the parameters' order. Refused: two tensors that get
/// one name.
core::result<tensor_source> renamed(tensor_source s, const std::function<std::string(const std::string&)>& to);

/// For readers of folders that may be a pipeline's, as their last step: takes the kept prefixes out of the client state
/// and gives the layers' tensors the names that they had before. Says in the source whether layers are left without.
core::result<tensor_source> with_kept_names(tensor_source pipeline);

/// The source with the names of `wanted`, which stand in the model's order: each layer in turn must have, under one
/// prefix, the next parameter that is wanted and nothing that is not, all of the wanted shapes; what is shared over
/// stages may stand anywhere. As it is where its layers have names already, or where these do not fit.
core::result<tensor_source> named_by_layers(tensor_source pipeline, std::span<const wanted_tensor> wanted);

/// `a, b, c and 9 more`: the beginning of a list of names, for messages.
std::string first_names(const std::vector<std::string>& names);

/// The error for a pipeline that named_by_layers() could not name: what was wanted, what is there, and how a person can
/// give the names.
core::error unnamed_layers(const tensor_source& pipeline, std::span<const wanted_tensor> wanted);

}  // namespace troupe::checkpoint
