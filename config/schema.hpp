// The table of keys as a JSON Schema (2020-12), for editors and validators. It says of single keys what `config check`
// says of them: names, types, choices, ranges of numbers. Leaves rules between keys to resolve.hpp.
#pragma once

#include <cstdint>
#include <string>

namespace troupe::config {

/// Whose file a schema describes.
enum class schema_of : uint8_t {
  job,        ///< Troupe's own, in YAML
  deepspeed,  ///< DeepSpeed's JSON, as leniently as an imported one is read
};

/// The schema as JSON, each key on a line of its own, with a line's end behind it.
std::string schema_json(schema_of whose);

}  // namespace troupe::config
