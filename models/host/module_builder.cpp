#include "models/host/module_builder.hpp"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <stdexcept>

#include "models/host/dry_run.hpp"
#include "models/host/random_turn.hpp"

namespace troupe::models {
namespace {

/// Returns the index of the first unit that shares its module with unit `u`, which may be `u` itself.
size_t first_with(const module_model& model, size_t u) {
  const std::string& key = model.units[u].recipe->key;
  const auto has_it = [&](const module_unit& x) { return x.recipe != nullptr && x.recipe->key == key; };
  if (key.empty()) return u;
  return static_cast<size_t>(std::ranges::find_if(model.units, has_it) - model.units.begin());
}

std::string named(const module_model& model, size_t u) { return "own model: unit '" + model.units[u].name + "'"; }

}  // namespace

core::result<std::shared_ptr<void>> module_builder::make(const module_model& model, size_t first) const {
  const auto fail = [&](const std::string& what) {
    return core::fail(error_kind::bad_input, named(model, first) + ": its factory " + what);
  };
  try {
    const at::AutoGradMode as_usual(true);
    std::optional<random_turn> turn;
    if (seed_) turn.emplace(random_key{*seed_, 0, place_of(model, first), 0, drawing_a_unit});
    auto made = model.units[first].recipe->make();
    if (made == nullptr) return fail("returned null");
    return made;
  } catch (const std::exception& e) {
    return fail("failed: " + line_of(e));
  }
}

core::result<void> module_builder::build(module_model& model, size_t u) {
  module_unit& unit = model.units[u];
  if (unit.recipe == nullptr || unit.module != nullptr) return {};
  const size_t first = first_with(model, u);
  if (model.units[first].recipe->type != unit.recipe->type)
    return core::fail(error_kind::bad_input, named(model, u) + " shares '" + unit.recipe->key + "' with unit '" +
                                                 model.units[first].name +
                                                 "', whose factory makes another type of module");
  const auto known = shared_.find(unit.recipe->key);
  TROUPE_ASSIGN(auto made,
                known != shared_.end() ? core::result<std::shared_ptr<void>>(known->second) : make(model, first));
  if (!unit.recipe->key.empty()) shared_.insert_or_assign(unit.recipe->key, made);
  built_module built = unit.recipe->use(made);
  unit.module = std::move(built.module);
  unit.forward = std::move(built.forward);
  return {};
}

void module_builder::drop(module_model& model, size_t u) {
  module_unit& unit = model.units[u];
  if (unit.recipe == nullptr) return;
  unit.module = nullptr;
  unit.forward = nullptr;
  const auto has_it = [&](const module_unit& x) { return x.recipe != nullptr && x.recipe->key == unit.recipe->key; };
  if (std::none_of(model.units.begin() + static_cast<ptrdiff_t>(u) + 1, model.units.end(), has_it))
    shared_.erase(unit.recipe->key);
}

void build(module_model& model) {
  module_builder builder;
  for (size_t u = 0; u < model.units.size(); ++u)
    if (auto ok = builder.build(model, u); !ok) throw std::runtime_error(ok.error().text);
}

}  // namespace troupe::models
