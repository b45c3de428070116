// Writes the table of keys as a JSON Schema (2020-12), for editors and validators. The schema checks single keys as
// `config check` does: names, types, choices, ranges of numbers. Leaves rules between keys to resolve.hpp.
#pragma once

#include <cstdint>
#include <string>

namespace troupe::config {

/// Kind of configuration file that a schema describes.
enum class schema_of : uint8_t {
  job,        ///< Troupe's own file, in YAML
  deepspeed,  ///< DeepSpeed's JSON, read as leniently as an imported file
};

/// Returns the schema as JSON, each key on its own line, with a newline at the end.
std::string schema_json(schema_of whose);

}  // namespace troupe::config
