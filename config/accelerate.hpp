// Reads files that Hugging Face's Accelerate writes, and returns their keys under DeepSpeed's names. Leaves the meaning
// of keys to the key table.
#pragma once

#include <filesystem>

#include "config/document/document.hpp"
#include "config/rules/settings.hpp"

namespace troupe::config {

/// True if a root has keys that only Accelerate writes.
bool is_accelerate_file(const node& root);
/// True if the file has keys that only Accelerate writes; false if it cannot be read.
bool is_accelerate_file(const std::filesystem::path& file);

/// Returns the root of an Accelerate file under the names of the key table: the number of processes, the number format,
/// and FSDP's section as keys of `zero_optimization`; machines and launchers are omitted. Errors: a kind of
/// parallelism, a strategy or a key of FSDP without such a name. Unknown keys of the root are warned about.
node_ptr accelerate_root(const node& root, reporter& report);

/// Returns the contents of a `deepspeed_config` mapping: DeepSpeed's own keys unchanged, and Accelerate's spellings
/// (`zero_stage`, `offload_optimizer_device`) under DeepSpeed's names if DeepSpeed has them.
node_ptr accelerate_section(const node& section);

/// Returns the value of `deepspeed_config_file` in the section, or null.
node_ptr accelerate_file_named(const node& section);

}  // namespace troupe::config
