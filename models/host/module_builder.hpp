// Builds the units of one instance of a host's model one by one, each by the factory that the host registered for it.
// Owns which units share a module; leaves the modules' tensors to callers.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "core/error.hpp"
#include "models/host/module_model.hpp"

namespace troupe::models {

class module_builder {
 public:
  /// Makes a builder; if `seed` is given, torch's generator is seeded for every module, by the first unit that has the
  /// module.
  explicit module_builder(std::optional<uint64_t> seed = std::nullopt) : seed_(seed) {}

  /// Builds unit `u` unless it is built. Errors (bad_input): the factory throws or returns nothing; the unit shares a
  /// module of another type.
  core::result<void> build(module_model& model, size_t u);
  /// Drops the unit's module, and the shared one if no later unit has it.
  void drop(module_model& model, size_t u);

 private:
  /// Makes the module of unit `first`.
  [[nodiscard]] core::result<std::shared_ptr<void>> make(const module_model& model, size_t first) const;

  std::optional<uint64_t> seed_;
  std::map<std::string, std::shared_ptr<void>> shared_;  // [key of the factory]: module that several units share
};

}  // namespace troupe::models
