// Files that Hugging Face's Accelerate writes: their keys in DeepSpeed's words. Leaves what keys mean to the key table.
#pragma once

#include "config/document/document.hpp"
#include "config/rules/settings.hpp"

namespace troupe::config {

/// Whether a root has the keys that Accelerate writes beside `deepspeed_config`.
bool is_accelerate_file(const node& root);

/// The root of such a file without Accelerate's own keys: the number of processes and the number format in the words
/// of the key table, everything else it knows of machines and launchers left out. Unknown keys are warned about.
node_ptr accelerate_root(const node& root, reporter& report);

/// The contents of a `deepspeed_config` mapping: DeepSpeed's own keys as they are, Accelerate's spellings of them
/// (`zero_stage`, `offload_optimizer_device`) where DeepSpeed has them.
node_ptr accelerate_section(const node& section);

/// The text of `deepspeed_config_file` inside of it, or null.
node_ptr accelerate_file_named(const node& section);

}  // namespace troupe::config
