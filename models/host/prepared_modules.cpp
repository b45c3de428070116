#include "models/host/prepared_modules.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "models/host/dry_run.hpp"
#include "models/host/module_parts.hpp"
#include "models/host/module_table.hpp"
#include "models/layers/torch_device.hpp"
#include "models/layers/torch_dtype.hpp"

namespace troupe::models {
namespace {

using core::error_kind;

core::result<module_model> call(const module_factory& factory, uint64_t seed) {
  const random_turn turn({seed, 0, 0, 0, drawing_a_model});
  try {
    return factory();
  } catch (const std::exception& e) {
    return core::fail(error_kind::bad_input, "the factory failed: " + line_of(e));
  }
}

void convert_buffers(const module_model& model, at::ScalarType type, at::Device where) {
  for (const auto& u : model.units)
    for (const auto& b : parts_of(u).buffers)
      if (b.tensor.is_floating_point() || b.tensor.device() != where)
        b.tensor.set_data(b.tensor.detach().to(where, b.tensor.is_floating_point() ? type : b.tensor.scalar_type()));
}

/// Frees the bytes of all tensors but keeps the tensors; a binding gives them new bytes.
void drop_values(const module_model& model) {
  for (const auto& p : parameters_of(model)) p.set_data(at::empty({0}, p.options().requires_grad(false)));
}

core::result<void> check_apart(const std::vector<module_model>& earlier, const module_model& model) {
  const auto mine = parameters_of(model);
  for (const auto& other : earlier)
    for (const auto& p : parameters_of(other))
      if (std::any_of(mine.begin(), mine.end(), [&](const at::Tensor& t) { return t.is_same(p); }))
        return core::fail(error_kind::bad_input,
                          "wanted modules of its own for each rank, got some that another rank has: make them inside "
                          "the factory");
  return {};
}

}  // namespace

core::result<std::unique_ptr<prepared_modules>> prepared_modules::make(const module_factory& factory, uint32_t ranks,
                                                                       core::dtype type, uint64_t seed,
                                                                       const host_batch& first,
                                                                       device::device_id device) {
  const at::NoGradGuard no_grad;
  auto out = std::make_unique<prepared_modules>();
  auto facts = std::make_shared<module_facts>();
  facts->type = type;
  facts->device = device;
  const at::Device place = torch_device(device);
  for (uint32_t r = 0; r < ranks; ++r) {
    const std::string where = "own model, rank " + std::to_string(r);
    auto model = [&] {
      const at::AutoGradMode as_usual(true);
      return call(factory, seed);
    }();
    if (!model) return core::fail(model.error().in(where));
    if (r == 0) {
      auto table = table_of(*model);
      if (!table) return core::fail(table.error());
      facts->table = std::move(*table);
      for (const auto& p : parameters_of(*model)) {
        out->values_.push_back(p.detach().to(at::kCPU, at::kFloat).contiguous());
        if (p.scalar_type() != torch_dtype(type) || p.device() != place)
          p.set_data(p.detach().to(place, torch_dtype(type)));
      }
    } else {
      if (auto ok = check_apart(out->instances_, *model); !ok) return core::fail(ok.error().in(where));
      if (auto ok = check_alike(facts->table, *model); !ok) return core::fail(ok.error().in(where));
    }
    convert_buffers(*model, torch_dtype(type), place);
    if (r == 0) {
      auto tried = dry_run(*model, facts->table, first, {seed, 0, 0, 0, 0});
      if (!tried) return core::fail(tried.error());
      facts->draws = std::move(tried->draws);
    }
    drop_values(*model);
    out->instances_.push_back(std::move(*model));
  }
  out->facts_ = std::move(facts);
  return out;
}

void prepared_modules::read(uint32_t parameter, uint64_t first, std::span<float> out) const {
  const at::Tensor& from = values_.at(parameter);
  TORCH_CHECK(first + out.size() <= static_cast<uint64_t>(from.numel()), "elements beyond a parameter's end");
  std::copy_n(from.const_data_ptr<float>() + first, out.size(), out.begin());
}

std::unique_ptr<language_model> prepared_modules::take(uint32_t rank) {
  return run_modules(std::move(instances_.at(rank)), facts_);
}

}  // namespace troupe::models
