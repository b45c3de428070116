// Reads a configuration: a YAML or JSON file with Troupe's and DeepSpeed's keys, overridden by `--set` texts, into one
// validated job_config. Reports all errors together, each with its place. Leaves the keys to key_table.hpp, rules
// between keys to resolve.hpp, the display of the result to explain.hpp.
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
#include "config/sections/job_config.hpp"

namespace troupe::config {

struct key_info;

/// Kind of configuration that is expected. A plain DeepSpeed file has no model, data and steps, so it describes no run;
/// keys that cannot be honoured yet are warnings in it, and errors in a job.
enum class reading : uint8_t {
  job,
  deepspeed_only,
  either,    ///< a job if the file has at least two of the keys model, data and steps; else a plain DeepSpeed file
  host_job,  ///< a job of a host with its own model and batches: `model` is absent, `data` names no text
};

struct key_problem {  ///< an error or warning about a key, or about a whole section
  std::string key, text;
  bool is_warning = false;
};

enum class so_far : uint8_t { sound, refused };  ///< whether all checks before load_options::also have accepted the job

struct load_options {  ///< options of load() and load_text()
  std::vector<std::string>
      /// Texts `key=value` that replace values of the file; a later text replaces an earlier one; paths in them are
      /// relative to the current folder.
      overrides;
  bool strict = false;                 ///< true: warnings are errors
  std::optional<uint64_t> steps = {};  ///< number of steps that replaces the value of the key `steps`; nullopt: the
                                       ///< file's value stays
  reading read_as = reading::job;
  /// Further check, outside of config/, that load() calls for a job (not for a host's job or a plain DeepSpeed file)
  /// whose model keys were all accepted; returns further errors and warnings. May be empty.
  std::function<std::vector<key_problem>(const job_config&, so_far)> also = {};
};

/// A key with the value that a run uses, for the output of `explain`.
struct effective_value {
  std::string key;
  std::string value;       ///< value of the key as YAML; `none` if it has no value
  bool held_back = false;  ///< true: `value` was given, but Troupe cannot honour it yet, so it has no effect
  /// where the value comes from: `job.yaml:8:28`, `default`, `auto`, `derived`, `--set key=value`, `--steps`
  std::string origin;
  const key_info* row = nullptr;  ///< the key's row of the key table (config/keys/key_info.hpp)
};

struct loaded {  ///< an accepted configuration
  job_config config;
  bool deepspeed_only = false;  ///< true: `config` describes no run, because it has no model, data or steps
  std::vector<diagnostic> warnings;
  /// Effective values in table order: one for every key of the table; for keys of named groups and lists only the given
  /// ones.
  std::vector<effective_value> values;
  std::vector<std::string> given;  ///< names of the keys to which the file or a `--set` gives a value or `auto`, sorted
};

/// Replaces the open degrees of a configuration (`config.open_degrees`) by the choice `taken`, and updates the
/// effective values.
void take_degrees(const degree_choice& taken, loaded& what);

using load_result = tl::expected<loaded, std::vector<diagnostic>>;

/// Reads a file: YAML; JSON if its name ends in .json or it begins with a bracket; base64 of JSON; or a file that
/// Accelerate writes. If no file has that name, the name itself may be base64 of JSON. Paths in a file are relative to
/// its folder.
load_result load(const std::filesystem::path& file, const load_options& options = {});

/// Reads a configuration from text; `name` appears in messages and decides between YAML and JSON, relative paths start
/// at `base_folder`.
load_result load_text(std::string_view text, const std::string& name, const std::filesystem::path& base_folder,
                      const load_options& options = {});

/// Returns a YAML file that loads to the same configuration from any folder: all paths are absolute, and no value is
/// left to defaults.
std::string effective_yaml(const loaded& what);

}  // namespace troupe::config
