#include "actors/memory/initial_weights.hpp"

#include <algorithm>

#include "actors/memory/state_store.hpp"
#include "core/tp_slices.hpp"
#include "formats/peft/adapter_folder.hpp"
#include "formats/source/source_reader.hpp"
#include "job/compression/mask_scores.hpp"
#include "kernels/base/cast.hpp"
#include "kernels/base/random.hpp"
#include "models/families/hugging_face.hpp"
#include "models/host/prepared_modules.hpp"
#include "models/table/adapters.hpp"
#include "models/table/teacher.hpp"

namespace troupe::actors {
namespace {

// Number of elements that are filled at a time, which limits the scratch memory for parameters of any size.
constexpr uint64_t window_elements = uint64_t{1} << 20;

using filler = std::function<core::result<void>(uint32_t parameter, uint64_t first, std::span<float> out)>;

/// Sets the elements of the row `zero_row` of parameter `p` to 0. `out` has the parameter's elements from number
/// `first` on; elements of other rows stay unchanged.
void clear_zero_row(const core::parameter_info& p, uint64_t first, std::span<float> out) {
  if (!p.zero_row) return;
  const uint64_t width = p.numel() / static_cast<uint64_t>(p.shape.front());
  const uint64_t from = std::max(first, *p.zero_row * width);
  const uint64_t to = std::min<uint64_t>(first + out.size(), (*p.zero_row + 1) * width);
  if (from < to) std::ranges::fill(out.subspan(from - first, to - from), 0.0F);
}

/// Fills `out` with elements, from number `first` on, of a uniform distribution between -bound and bound.
void fill_within(float bound, const kernels::rounding_key& key, uint64_t first, std::span<float> out) {
  kernels::rounding_noise(out, key, first);
  for (float& x : out) x *= 2 * bound;
}

filler drawn(const job::blueprint& b) {
  return [&b](uint32_t q, uint64_t first, std::span<float> out) -> core::result<void> {
    const auto& p = b.tensor.whole->parameters[q];
    switch (p.init) {
      case core::initial_value::zeros:
        std::fill(out.begin(), out.end(), 0.0F);
        break;
      case core::initial_value::ones:
        std::fill(out.begin(), out.end(), 1.0F);
        break;
      case core::initial_value::normal:
        kernels::fill_normal(out, b.config->seed, q, first, 0.0F, p.init_std);
        clear_zero_row(p, first, out);
        break;
      case core::initial_value::uniform:
        fill_within(p.init_std, {b.config->seed, 0, q}, first, out);
        break;
    }
    return {};
  };
}

/// Returns a function that fills parameters of a distillation teacher from the teacher's own folder, and all other
/// parameters by `model`.
core::result<filler> with_teacher(const job::blueprint& b, filler model,
                                  std::unique_ptr<models::weights_source>& file) {
  if (!b.teaching) return model;
  const auto& all = b.tensor.whole->parameters;
  core::model_table own = *b.tensor.whole;
  std::erase_if(own.parameters, [](const core::parameter_info& p) { return !p.of_teacher || p.is_copy(); });
  for (auto& p : own.parameters) p.name.erase(0, std::string_view(models::teacher_prefix).size());
  auto opened =
      models::weights_source::open(b.config->model.teacher, b.teaching->teacher, own, b.config->model.dequantise);
  if (!opened) return core::fail(opened.error().in("model.teacher"));
  file = std::move(*opened);
  const auto first = static_cast<uint32_t>(std::ranges::find_if(all, &core::parameter_info::of_teacher) - all.begin());
  return [first, &from = *file, model = std::move(model)](uint32_t q, uint64_t begin, std::span<float> out) {
    return q < first ? model(q, begin, out) : from.read(q - first, begin, out);
  };
}

/// Returns a function that fills adapters, and other parameters that the folder `lora.from` has, from this folder, or
/// draws adapters from the seed, and fills all other parameters by `model`.
core::result<filler> with_adapters(const job::blueprint& b, filler model,
                                   std::unique_ptr<formats::peft_adapter>& adapter) {
  if (!b.spec.adapters) return model;
  if (!b.config->lora.from.empty()) {
    auto opened = formats::peft_adapter::open(b.config->lora.from);
    if (!opened) return core::fail(opened.error().in("lora.from"));
    adapter = std::move(*opened);
  }
  return [&b, from = adapter.get(), draw = drawn(b), model = std::move(model)](
             uint32_t q, uint64_t first, std::span<float> out) -> core::result<void> {
    const core::parameter_info& p = b.tensor.whole->parameters[q];
    const auto* const entry = from != nullptr ? from->find(p.name) : nullptr;
    if (entry != nullptr) return from->read(*entry, first, out);
    return p.of_adapter ? draw(q, first, out) : model(q, first, out);
  };
}

/// Returns a function that fills one tensor-parallel rank's share of the elements that `whole` fills.
filler share_of(const job::blueprint& b, uint32_t coordinate, const filler& whole) {
  return [&b, coordinate, &whole](uint32_t q, uint64_t first, std::span<float> out) -> core::result<void> {
    const auto& cut = b.tensor.cut.parameters[q];
    if (!cut.cuts()) return whole(q, first, out);
    const core::tp_slices share(b.tensor.whole->parameters[q].shape, cut, coordinate);
    for (const auto& run : share.runs(first, out.size())) {
      const auto part = out.subspan(run.local - first, run.count);
      if (run.is_padding())
        std::ranges::fill(part, 0.0F);
      else
        TROUPE_TRY(whole(q, run.whole, part));
    }
    return {};
  };
}

core::result<void> ask(const fill_watch& watch) {
  if (!watch.wants_end || !watch.wants_end()) return {};
  return core::fail(core::error_kind::stopped, "stopped while first values were made");
}

/// Returns the number of elements of all parameters of the table, including copies of tied parameters.
double elements_of(const core::model_table& table) {
  double n = 0;
  for (const auto& p : table.parameters) n += static_cast<double>(p.numel());
  return n;
}

/// Fills the elements of `part` (weights or master weights) of parameter `q` that the rank holds, `window_elements` at
/// a time: in place if the host can access them, otherwise by state_store::write.
core::result<void> fill_part(const filler& fill, const state_store& store, uint32_t q, plan::state_part part,
                             std::vector<float>& scratch, std::vector<std::byte>& stored, const fill_watch& watch) {
  const core::dtype type = store.type_of(part);
  const uint32_t source = store.plan().table().original(q);
  for (const auto& run : store.runs(q, part, store.held(q, part)))
    for (uint64_t done = 0; done < run.range.count; done += window_elements) {
      TROUPE_TRY(ask(watch));
      const uint64_t n = std::min(window_elements, run.range.count - done), first = run.range.first + done;
      scratch.resize(n);
      TROUPE_TRY(fill(source, first, scratch));
      const bool in_place = run.at != nullptr && !run.on_device;
      if (!in_place) stored.resize(n * core::size_of(type));
      std::byte* const to = in_place ? run.at + done * core::size_of(type) : stored.data();
      const auto* const wide = reinterpret_cast<const std::byte*>(scratch.data());
      if (const auto lost = kernels::cast(wide, core::dtype::f32, to, type, n))
        return core::fail(formats::overflow_error(store.plan().table().parameters[q].name,
                                                  {first + lost->element, lost->value}, type,
                                                  "wanted a run that computes in a wider type"));
      if (in_place) continue;
      TROUPE_TRY(store.write(q, part, first, stored));
    }
  return {};
}

}  // namespace

core::result<void> fill_initial_weights(const job::blueprint& b, rank_memory& memory, models::prepared_modules* own,
                                        const fill_watch& watch, filled_values of) {
  const auto& p = memory.plan();
  std::unique_ptr<models::weights_source> file;
  filler fill = drawn(b);
  if (own != nullptr) {
    fill = [own, rank = p.rank](uint32_t q, uint64_t first, std::span<float> out) {
      return own->read(q, first, out, rank);
    };
  } else if (!b.config->model.path.empty() && models::has_weights(b.config->model.path)) {
    TROUPE_ASSIGN(auto opened,
                  models::weights_source::open(
                      b.config->model.path, b.spec,
                      models::without_teacher(models::without_adapters(job::without_scores(*b.tensor.whole))),
                      b.config->model.dequantise));
    file = std::move(opened);
    fill = [&](uint32_t q, uint64_t first, std::span<float> out) { return file->read(q, first, out); };
  }
  fill = [&b, others = fill](uint32_t q, uint64_t first, std::span<float> out) -> core::result<void> {
    const auto& info = b.tensor.whole->parameters[q];
    if (!job::is_score_name(info.name)) return others(q, first, out);
    fill_within(job::first_scores_within(info), {b.config->seed, 0, q}, first, out);
    return {};
  };
  std::unique_ptr<formats::peft_adapter> adapter;
  TROUPE_ASSIGN(fill, with_adapters(b, std::move(fill), adapter));
  std::unique_ptr<models::weights_source> taught;
  TROUPE_ASSIGN(auto with_its_teacher, with_teacher(b, std::move(fill), taught));
  const filler share = share_of(b, p.options().mesh.tensor_at(p.rank), with_its_teacher);
  const state_store store(memory);
  std::vector<float> scratch;
  std::vector<std::byte> stored;
  double filled = 0;
  const double all = elements_of(*b.table) * (p.options().master_is_parameter() ? 1 : 2);
  for (uint32_t q = 0; q < b.table->parameters.size(); ++q) {
    if (of == filled_values::of_teacher && !b.table->parameters[q].of_teacher) continue;
    for (const auto part : {plan::state_part::copy, plan::state_part::master}) {
      if (part == plan::state_part::master && p.options().master_is_parameter()) break;
      TROUPE_TRY(fill_part(share, store, q, part, scratch, stored, watch));
      filled += static_cast<double>(b.table->parameters[q].numel());
      if (watch.done) watch.done(filled / all);
    }
  }
  return {};
}

core::result<void> reset_moments(const job::optimizer_groups& groups, rank_memory& memory, uint32_t q) {
  const state_store store(memory);
  const double value = groups.groups[groups.group_of[q]].first_moment;
  std::vector<double> values;
  for (uint32_t k = 0; k < job::own_moments(groups, q); ++k) {
    const auto part = plan::moment_part(k);
    const auto held = store.held(q, part);
    values.assign(std::min(held.count, state_window_elements), value);
    for (uint64_t done = 0; done < held.count; done += values.size()) {
      const plan::slice window{held.first + done, std::min<uint64_t>(values.size(), held.count - done)};
      TROUPE_TRY(store.write_as(q, part, window, core::dtype::f64, reinterpret_cast<const std::byte*>(values.data())));
    }
  }
  return {};
}

core::result<void> begin_average(const job::optimizer_groups& groups, rank_memory& memory, uint32_t q) {
  if (!groups.average) return {};
  const state_store store(memory);
  const auto part = plan::moment_part(job::own_moments(groups, q));
  const auto held = store.held(q, part);
  std::vector<std::byte> window;
  for (uint64_t done = 0; done < held.count; done += state_window_elements) {
    const uint64_t count = std::min(held.count - done, state_window_elements);
    window.resize(count * core::size_of(store.type_of(part)));
    TROUPE_TRY(store.read(q, plan::state_part::master, held.first + done, window));
    TROUPE_TRY(store.write(q, part, held.first + done, window));
  }
  return {};
}

core::result<void> fill_initial_moments(const job::optimizer_groups& groups, rank_memory& memory,
                                        const fill_watch& watch) {
  for (uint32_t q = 0; q < memory.plan().table().parameters.size(); ++q) {
    if (groups.groups[groups.group_of[q]].first_moment == 0) continue;
    TROUPE_TRY(ask(watch));
    TROUPE_TRY(reset_moments(groups, memory, q));
  }
  return {};
}

}  // namespace troupe::actors
