// Chooses the linear layers that the `lora` section gives adapters, by names as PEFT matches them or by a folder of
// PEFT, and writes a run's adapters as such a folder. Owns the refusals of names and of adapters of another base.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <tl/expected.hpp>

#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "models/table/model_spec.hpp"

namespace troupe::job {

struct adapter_problem {  ///< why a section `lora` does not fit the model
  std::string key;        ///< the key that is wrong, such as `lora.targets`
  std::string text;
  core::error_kind kind = core::error_kind::bad_input;
};

/// Returns the adapters that the section gives the model `spec`, which has none yet; nullopt without the section, or if
/// it names neither layers nor a folder, which the rules of config/ refuse.
/// Refused, with the key: a name that no linear layer has, with the nearest names; patterns; the head; names of other
/// layers; layers to train that share their weights; options that differ from those of `from`; an adapter of `from`
/// that belongs to another base.
tl::expected<std::optional<models::adapter_spec>, adapter_problem> choose_adapters(const config::lora_section& lora,
                                                                                   const models::model_spec& spec);

/// Function that fills `out` with the elements of the parameter `name` from `first` on, in fp32.
using named_reader =
    std::function<core::result<void>(const std::string& name, uint64_t first, std::span<float> out)>;

/// Writes the adapters of the model `spec` as a folder of PEFT, in fp32. `base`: folder of the base model, which the
/// adapter's options name; empty: unknown.
core::result<void> write_adapters(const std::filesystem::path& folder, const models::model_spec& spec,
                                  const std::filesystem::path& base, const named_reader& read);

/// Returns the number of bytes that the adapters and the trained parameters of a model with adapters have in fp32.
uint64_t adapter_bytes(const core::model_table& table);

/// Returns a sentence about how much of a model with adapters is trained; empty if the model has none.
std::string adapters_sentence(const core::model_table& table);

}  // namespace troupe::job
