#include "actors/session/state_access.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "actors/run/state_access_parts.hpp"
#include "config/keys/key_table.hpp"
#include "core/allocation.hpp"

namespace troupe::actors {
namespace {

using plan::state_part;

/// Number of bytes of an unknown name that are compared with the names of parameters to suggest the nearest one.
constexpr size_t name_bytes_compared = 200;

}  // namespace

core::result<uint32_t> state_access::find(const std::string& name) const {
  const auto& all = parts_->table.parameters;
  const auto it = std::find_if(all.begin(), all.end(), [&](const auto& p) { return !p.is_copy() && p.name == name; });
  if (it != all.end()) return static_cast<uint32_t>(it - all.begin());
  const auto own = std::span(all).first(static_cast<size_t>(
      std::find_if(all.begin(), all.end(), [](const auto& p) { return p.is_copy(); }) - all.begin()));
  const auto far = [shown = std::string_view(name).substr(0, name_bytes_compared)](const auto& p) {
    return config::edits(shown, p.name);
  };
  const auto nearest =
      std::min_element(own.begin(), own.end(), [&](const auto& a, const auto& b) { return far(a) < far(b); });
  return fail(error_kind::bad_input,
              fmt::format("parameter '{}': wanted one of the model's {} parameters, such as '{}'",
                          name.substr(0, name_bytes_compared), own.size(), nearest->name));
}

core::result<compression_state> state_access::compression() const {
  TROUPE_TRY(parts_->before_reading());
  return parts_->compression();
}

core::result<state_place> state_access::weights(const std::string& name) const {
  TROUPE_ASSIGN(const auto q, find(name));
  const auto& p = parts_->table.parameters[q];
  return state_place{q, p.trainable ? state_part::master : state_part::copy, {0, p.numel()}};
}

core::result<state_place> state_access::state(const std::string& name, const std::string& key) const {
  TROUPE_ASSIGN(const auto q, find(name));
  const auto& p = parts_->table.parameters[q];
  if (!p.trainable)
    return fail(
        error_kind::bad_input,
        fmt::format("parameter '{}': wanted its optimizer state '{}', but it is frozen and has none", name, key));
  std::vector<std::string> known;
  const uint32_t moments = parts_->states.ranks().front()->plan().options().update_of(q).moments;
  for (uint32_t k = 0; k < moments; ++k) {
    known.push_back(job::moment_name(parts_->groups, q, k));
    if (known.back() == key) return state_place{q, plan::moment_part(k), {0, p.numel()}};
  }
  return fail(error_kind::bad_input,
              fmt::format("parameter '{}': wanted its optimizer state '{}', it has {}", name, key,
                          known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", "))));
}

core::result<state_place> state_access::gradient(const std::string& name) const {
  TROUPE_ASSIGN(const auto q, find(name));
  const auto& p = parts_->table.parameters[q];
  if (!p.trainable)
    return fail(error_kind::bad_input,
                fmt::format("parameter '{}': wanted its gradient, but it is frozen and has none", name));
  if (!parts_->gradient_factor)
    return fail(error_kind::bad_input,
                fmt::format("parameter '{}': wanted its gradient, but no step has been done yet", name));
  return state_place{q, state_part::gradient, {0, p.numel()}};
}

core::result<state_place> state_access::on_rank(core::result<place> whole, uint32_t rank) const {
  if (!whole) return whole;
  if (rank >= parts_->states.ranks().size())
    return fail(error_kind::bad_input,
                fmt::format("rank {}: wanted one of 0 to {}", rank, parts_->states.ranks().size() - 1));
  whole->range = state_store(*parts_->states.ranks()[rank]).held(whole->parameter, whole->part);
  whole->rank = rank;
  return whole;
}

state_access::values state_access::get(const core::result<place>& x) const {
  if (!x) return fail(x.error());
  const auto read = [&](core::dtype type, std::byte* out) -> core::result<void> {
    TROUPE_TRY(parts_->before_reading());
    const auto& all = parts_->states;
    const auto ok = x->rank ? read_states(all.like(*x->rank, x->parameter), x->parameter, x->part, x->range, type, out)
                            : all.read(x->parameter, x->part, x->range, type, out);
    if (!ok) return fail(ok.error().in("parameter '" + parts_->table.parameters[x->parameter].name + "'"));
    return {};
  };
  const std::string& name = parts_->table.parameters[x->parameter].name;
  return core::with_memory(fmt::format("parameter '{}'", name), [&]() -> values {
    std::vector<float> out(x->range.count);
    if (x->part != state_part::gradient) {
      TROUPE_TRY(read(core::dtype::f32, reinterpret_cast<std::byte*>(out.data())));
      return out;
    }
    std::vector<double> sums(out.size());
    TROUPE_TRY(read(core::dtype::f64, reinterpret_cast<std::byte*>(sums.data())));
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(sums[i] * *parts_->gradient_factor);
    return out;
  });
}

core::result<state_view> state_access::view(const core::result<place>& x) const {
  if (!x) return fail(x.error());
  TROUPE_TRY(parts_->before_reading());
  const auto& memory = *parts_->states.ranks()[*x->rank];
  const state_store store(memory);
  state_view out;
  out.type = store.type_of(x->part);
  out.elements = x->range;
  if (x->range.count == 0) return out;
  out.data = memory.is_here() ? store.in_memory(x->parameter, x->part, x->range) : nullptr;
  if (out.data != nullptr) out.memory = memory.owner_of(out.data);
  if (out.memory != nullptr) return out;
  return fail(error_kind::bad_input,
              fmt::format("parameter '{}': wanted a state in the host memory of this process, which a view shows, but "
                          "rank {} has it in a file, on a device or in another process: read a copy instead",
                          parts_->table.parameters[x->parameter].name, *x->rank));
}

core::result<void> state_access::check(const core::result<place>& x, std::span<const float> in) const {
  if (!x) return fail(x.error());
  if (in.size() == x->range.count) return {};
  return fail(error_kind::bad_input,
              fmt::format("parameter '{}': wanted {} values, got {}", parts_->table.parameters[x->parameter].name,
                          x->range.count, in.size()));
}

core::result<void> state_access::put(const place& x, std::span<const float> in) const {
  const auto write = [&](state_part part) -> core::result<void> {
    for (uint32_t q = x.parameter; q < parts_->table.parameters.size(); ++q) {  // tied copies have larger numbers
      if (parts_->table.original(q) != x.parameter) continue;
      const auto& all = parts_->states;
      const auto* from = reinterpret_cast<const std::byte*>(in.data());
      auto did = x.rank ? write_states(all.like(*x.rank, q), q, part, x.range, core::dtype::f32, from)
                        : all.write(q, part, x.range, core::dtype::f32, from);
      if (!did) return did;
    }
    return {};
  };
  auto ok = write(x.part);
  // Also writes the weights that the next forward pass uses, rounded as an update would round them, on all ranks that
  // hold them.
  if (ok && x.part == state_part::master) ok = write(state_part::copy);
  if (ok) return ok;
  return fail(ok.error().in("parameter '" + parts_->table.parameters[x.parameter].name + "'"));
}

core::result<void> state_access::set(const core::result<place>& x, std::span<const float> in) const {
  TROUPE_TRY(check(x, in));
  TROUPE_TRY(parts_->before_changing());
  return put(*x, in);
}

state_access::values state_access::get_full_fp32_param(const std::string& name) const { return get(weights(name)); }
state_access::values state_access::get_full_optimizer_state(const std::string& name, const std::string& key) const {
  return get(state(name, key));
}
state_access::values state_access::get_full_grad(const std::string& name) const { return get(gradient(name)); }
core::result<void> state_access::set_full_fp32_param(const std::string& name, std::span<const float> in) const {
  return set(weights(name), in);
}
core::result<void> state_access::set_full_optimizer_state(const std::string& name, const std::string& key,
                                                          std::span<const float> in) const {
  return set(state(name, key), in);
}

core::result<plan::slice> state_access::local_slice(uint32_t rank, const std::string& name) const {
  TROUPE_ASSIGN(const auto x, on_rank(weights(name), rank));
  return x.range;
}
state_access::values state_access::get_local_fp32_param(uint32_t rank, const std::string& name) const {
  return get(on_rank(weights(name), rank));
}
state_access::values state_access::get_local_optimizer_state(uint32_t rank, const std::string& name,
                                                             const std::string& key) const {
  return get(on_rank(state(name, key), rank));
}
state_access::values state_access::get_local_grad(uint32_t rank, const std::string& name) const {
  return get(on_rank(gradient(name), rank));
}
core::result<state_view> state_access::view_local_param(uint32_t rank, const std::string& name) const {
  return view(on_rank(weights(name), rank));
}
core::result<state_view> state_access::view_local_optimizer_state(uint32_t rank, const std::string& name,
                                                                  const std::string& key) const {
  return view(on_rank(state(name, key), rank));
}
core::result<void> state_access::set_local_fp32_param(uint32_t rank, const std::string& name,
                                                      std::span<const float> in) const {
  return set(on_rank(weights(name), rank), in);
}
core::result<void> state_access::set_local_optimizer_state(uint32_t rank, const std::string& name,
                                                           const std::string& key, std::span<const float> in) const {
  return set(on_rank(state(name, key), rank), in);
}

namespace {

core::result<std::vector<named_values>> of_all(std::span<const std::string> names, auto get) {
  std::vector<named_values> out;
  for (const auto& name : names) {
    TROUPE_ASSIGN(auto one, get(name));
    out.push_back({name, std::move(one)});
  }
  return out;
}

}  // namespace

core::result<std::vector<named_values>> state_access::get_full_fp32_params(std::span<const std::string> names) const {
  return of_all(names, [&](const std::string& name) { return get_full_fp32_param(name); });
}
core::result<std::vector<named_values>> state_access::get_full_optimizer_states(std::span<const std::string> names,
                                                                                const std::string& key) const {
  return of_all(names, [&](const std::string& name) { return get_full_optimizer_state(name, key); });
}
core::result<std::vector<named_values>> state_access::get_full_grads(std::span<const std::string> names) const {
  return of_all(names, [&](const std::string& name) { return get_full_grad(name); });
}

core::result<void> state_access::set_full_fp32_params(std::span<const named_values> all) const {
  for (const auto& x : all) TROUPE_TRY(check(weights(x.name), x.values));
  for (const auto& x : all) TROUPE_TRY(set_full_fp32_param(x.name, x.values));
  return {};
}
core::result<void> state_access::set_full_optimizer_states(std::span<const named_values> all,
                                                           const std::string& key) const {
  for (const auto& x : all) TROUPE_TRY(check(state(x.name, key), x.values));
  for (const auto& x : all) TROUPE_TRY(set_full_optimizer_state(x.name, key, x.values));
  return {};
}

}  // namespace troupe::actors
