#include "models/host/unit_pass.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <set>

#include "core/pass_order.hpp"
#include "models/host/dry_run.hpp"
#include "models/host/fuse_activation.hpp"
#include "models/host/module_table.hpp"
#include "models/host/prepared_modules.hpp"

namespace troupe::models {
namespace {

bool has(const std::vector<std::string>& all, const std::string& x) { return std::ranges::find(all, x) != all.end(); }

bool overlap(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return std::ranges::any_of(a, [&](const std::string& x) { return has(b, x); });
}

/// True if pass `x` must run after pass `y`.
bool behind(const unit_pass& x, const unit_pass& y) {
  return overlap(x.promise.needs, y.promise.provides) || overlap(x.promise.ends, y.promise.needs);
}

core::result<void> all_provided(const unit_pass_order& passes) {
  for (const unit_pass* x : passes)
    for (const std::string& need : x->promise.needs)
      if (need != unit_facts::apart &&
          std::ranges::none_of(passes, [&](const unit_pass* y) { return has(y->promise.provides, need); }))
        return core::fail(error_kind::bad_input,
                          "pass " + x->name + " needs that " + need + ", which no pass provides");
  return {};
}

/// The list of Troupe's own passes over units; a new pass needs an entry here.
const unit_pass passes[] = {
    {.name = "fuse_activation",
     .promise = {.needs = {std::string(unit_facts::apart)},
                 .provides = {std::string(unit_facts::fused)},
                 .ends = {std::string(unit_facts::apart)}},
     .run = fuse_activations,
     .keeps_bits = true},
};

}  // namespace

std::span<const unit_pass> all_unit_passes() { return passes; }

core::result<unit_pass_order> in_order(const unit_pass_order& passes) {
  TROUPE_TRY(core::go_together(passes));
  TROUPE_TRY(all_provided(passes));
  return core::one_behind_another(passes, behind);
}

core::result<std::vector<unit_account>> run_unit_passes(module_model& m, const unit_surroundings& s,
                                                        const unit_pass_order& passes) {
  for (uint32_t u = 0; u < m.units.size(); ++u) m.units[u].place = u;
  auto next = static_cast<uint32_t>(m.units.size());
  std::vector<unit_account> out;
  for (const unit_pass* x : passes) {
    unit_account done{x->name, m.units.size(), 0, {}};
    try {
      done.why = x->run(m, s);
    } catch (const std::exception& e) {
      return core::fail(error_kind::bad_input, "pass " + x->name + ": " + line_of(e));
    }
    if (auto ok = check_units(m); !ok) return core::fail(ok.error().in("pass " + x->name));
    // Numbers of units so far; a unit that a pass has made or copied gets a new number, which seeds its random numbers.
    std::set<uint32_t> taken;
    for (module_unit& u : m.units)
      if (!u.place || !taken.insert(*u.place).second) u.place = next++;
    done.units_after = m.units.size();
    out.push_back(std::move(done));
  }
  return out;
}

std::vector<unit_node> nodes_of(const prepared_modules& made) {
  const core::model_table& table = made.table();
  const module_facts& facts = made.facts();
  const auto count = static_cast<uint32_t>(table.units.size());
  std::vector<unit_node> out(count);
  for (uint32_t u = 0; u < count; ++u) {
    const core::unit_info& row = table.units[u];
    unit_node& node = out[u];
    node.name = row.name;
    node.forward_flops = row.segments[0].forward_flops;
    node.saved_bytes = row.segments[0].saved_bytes;
    node.input_bytes = row.input_bytes;
    node.draws = facts.draws[u];
    for (const uint32_t q : row.parameters) node.parameters.push_back(table.parameters[q].name);
    for (const value_info& v : facts.inputs[u]) node.takes.push_back({v.name, v.shape});
    if (u > 0) out[u - 1].gives = node.takes;
    if (u > 0) out[u - 1].users.push_back(u);
    for (uint32_t other = 0; other < count; ++other)
      if (other != u && std::ranges::any_of(row.parameters, [&](uint32_t q) {
            return std::ranges::find(table.units[other].parameters, q) != table.units[other].parameters.end();
          }))
        node.sharers.push_back(other);
  }
  for (size_t i = 0; i < facts.outputs.size(); ++i)
    out.back().gives.push_back({facts.outputs[i], facts.output_shapes[i]});
  return out;
}

std::string text_of(const std::vector<unit_account>& accounts) {
  std::string out;
  for (const unit_account& x : accounts)
    out += fmt::format("pass {}: {}; {} units -> {}\n", x.name, x.why.empty() ? "nothing to change" : x.why,
                       x.units_before, x.units_after);
  return out;
}

}  // namespace troupe::models
