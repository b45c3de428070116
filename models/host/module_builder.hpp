// Makes the modules of one instance of a host's model, one unit after another, by the factories that the host
// registered for the units. Owns which units share a module; leaves the modules' tensors to callers.
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
  /// Makes a builder. If `seed` is given, torch's generator is seeded before each module is made, from `seed` and the
  /// first unit that has the module, so that every builder makes the same values.
  explicit module_builder(std::optional<uint64_t> seed = std::nullopt) : seed_(seed) {}

  /// Makes the module and forward of unit `u`, unless the unit has them. Errors (bad_input): the factory throws or
  /// returns nothing; the unit shares a module of another type.
  core::result<void> build(module_model& model, size_t u);
  /// Removes the module of unit `u`, and forgets a shared module if no later unit has it.
  void drop(module_model& model, size_t u);

 private:
  /// Returns a new module, made by the factory of unit `first`.
  [[nodiscard]] core::result<std::shared_ptr<void>> make(const module_model& model, size_t first) const;

  std::optional<uint64_t> seed_;
  std::map<std::string, std::shared_ptr<void>> shared_;  // [key of the factory]: module that several units share
};

}  // namespace troupe::models
