// Reads configuration files that Hugging Face's Accelerate writes, and returns their keys under DeepSpeed's names. The
// key table (config/keys/) defines what the keys mean.
#pragma once

#include <filesystem>

#include "config/document/document.hpp"
#include "config/rules/settings.hpp"

namespace troupe::config {

/// Returns true if `root`, the root mapping of a configuration file, has keys that only Accelerate writes.
bool is_accelerate_file(const node& root);
/// Returns true if the file can be read and its root mapping has keys that only Accelerate writes.
bool is_accelerate_file(const std::filesystem::path& file);

/// Returns the root of an Accelerate file with its keys renamed to the names in the key table: the number of
/// processes, the number format, and FSDP's section as keys of `zero_optimization`; machines and launchers are
/// omitted. Reports an error for a kind of parallelism, a strategy or an FSDP key without a counterpart, and a
/// warning for an unknown key of the root.
node_ptr accelerate_root(const node& root, reporter& report);

/// Returns the contents of a `deepspeed_config` mapping: DeepSpeed's own keys unchanged, and Accelerate's spellings
/// (`zero_stage`, `offload_optimizer_device`) under DeepSpeed's names if DeepSpeed has them.
node_ptr accelerate_section(const node& section);

/// Returns the value of the key `deepspeed_config_file` in `section`; null if the key is missing or `none`.
node_ptr accelerate_file_named(const node& section);

}  // namespace troupe::config
