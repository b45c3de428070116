// Reads a configuration: a YAML or JSON file with Troupe's and DeepSpeed's keys, `--set` texts over it, into one
// validated job_config. Everything that is wrong is reported at once, each with its place.
// Leaves what keys are to key_table.hpp, rules between keys to resolve.hpp, showing the result to explain.hpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "config/document/diagnostic.hpp"
#include "config/keys/key_table.hpp"
#include "config/sections/job_config.hpp"

namespace troupe::config {

/// The kind of file that is expected. A plain DeepSpeed file has no model, data and steps; keys that cannot be honoured
/// yet are told there, not refused.
enum class reading : uint8_t {
  job,
  deepspeed_only,
  either,    ///< a job when it names two of model, data and steps
  host_job,  ///< a job of a host that brings its own model and batches: `model` is absent, `data` says no text
};

struct key_problem {  ///< something wrong with a key, or with all of a section
  std::string key, text;
  bool is_warning = false;
};

enum class so_far : uint8_t { sound, refused };  ///< what all other checks say of a job

struct load_options {  ///< how a file is read
  std::vector<std::string>
      overrides;        ///< `key=value`, later ones win; paths in them are relative to the current folder
  bool strict = false;  ///< warnings are errors
  std::optional<uint64_t> steps = {};  ///< instead of the key `steps`
  reading read_as = reading::job;
  /// Further errors of a job, as others know them: asked of one whose model's keys are known and of their types.
  std::function<std::vector<key_problem>(const job_config&, so_far)> also = {};
};

/// One key as a run will see it; for explain.
struct effective_value {
  std::string key;
  std::string value;       ///< as YAML; `none` when there is none
  bool held_back = false;  ///< `value` was given, and nothing can honour it yet
  std::string origin;      ///< `job.yaml:8:28`, `default`, `auto`, `derived`, `--set key=value`, `--steps`
  const key_info* row = nullptr;
};

struct loaded {  ///< a configuration that was accepted
  job_config config;
  bool deepspeed_only = false;  ///< then `config` describes no run: it has no model, data or steps
  std::vector<diagnostic> warnings;
  std::vector<effective_value> values;  ///< one for every key in the table, in its order; of groups those given
  std::vector<std::string> given;       ///< keys that the file or an override gives a value or `auto`
};

/// Takes one of the ways of a configuration whose degrees are open (`config.open_degrees`): what is effective then.
void take_degrees(const degree_choice& taken, loaded& what);

using load_result = tl::expected<loaded, std::vector<diagnostic>>;

/// Reads a file: YAML, or JSON when its name ends in .json or it begins with a bracket, or base64 of JSON, or what
/// Accelerate writes. Where no file has that name, the name itself may be base64 of JSON. Paths in a file are relative
/// to its folder.
load_result load(const std::filesystem::path& file, const load_options& options = {});

/// The same from text; `name` is shown in messages and decides between YAML and JSON, `base_folder` resolves paths.
load_result load_text(std::string_view text, const std::string& name, const std::filesystem::path& base_folder,
                      const load_options& options = {});

}  // namespace troupe::config
