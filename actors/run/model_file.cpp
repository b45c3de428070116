#include "actors/run/model_file.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "actors/memory/state_store.hpp"
#include "actors/run/training_run.hpp"
#include "formats/names/name_map.hpp"
#include "formats/torch/archive_writer.hpp"

namespace troupe::actors {
namespace {

constexpr std::string_view default_file_name = "pytorch_model.bin";

/// Returns the memory of a rank that holds the whole parameter `q`, as every rank of the parameter's pipeline stage
/// does below ZeRO stage 3.
rank_memory& holder_of(rank_memories ranks, uint32_t q) {
  return **std::ranges::find_if(ranks, [&](const auto& m) { return m->plan().layout->holds(m->plan().rank, q); });
}

/// Writes the weights in the parameters' type into the file. Fails if processes are lost meanwhile; save_16bit_model()
/// then repeats the call with the remaining ranks.
core::result<bool> write_16bit_model(const training_run& run, const std::filesystem::path& path,
                                     bool exclude_frozen_parameters) {
  TROUPE_TRY(run.sound());
  const auto& plan = run.term->memory.ranks.front()->plan();
  if (plan.layout->gathers() && !run.term->plan.config->zero_optimization.stage3_gather_16bit_weights_on_model_save) {
    run.host.say(
        fmt::format("'{}' was not written: zero_optimization.stage3_gather_16bit_weights_on_model_save "
                    "is false, and at stage 3 no rank has whole weights",
                    path.string()));
    return false;
  }
  std::vector<formats::tensor_to_write> tensors;
  std::vector<std::string> names;
  const auto& table = *run.term->plan.tensor.whole;
  for (uint32_t q = 0; q < table.parameters.size(); ++q) {
    const auto& info = table.parameters[q];
    if (info.is_copy() || info.of_teacher || (exclude_frozen_parameters && !info.trainable)) continue;
    formats::tensor_to_write t{info.name, plan.options().types.parameter, info.shape};
    if (plan.layout->gathers() || run.term->plan.tensor.cut.parameters[q].cuts())
      // The caller reads blocks that begin and end at whole elements.
      t.source = [whole = run.term->whole(), q, type = plan.options().types.parameter](uint64_t begin,
                                                                                       std::span<std::byte> out) {
        const uint64_t element_bytes = core::size_of(type);
        return whole.read(q, plan::state_part::copy, {begin / element_bytes, out.size() / element_bytes}, type,
                          out.data());
      };
    else
      t.bytes = {holder_of(run.term->memory.ranks, q).parameter(q, 0),
                 info.numel() * core::size_of(plan.options().types.parameter)};
    tensors.push_back(std::move(t));
    names.push_back(info.name);
  }
  const auto extension = path.extension();
  if (extension == ".safetensors") {
    TROUPE_TRY(formats::write_safetensors(path, tensors));
  } else {
    // In torch's formats a tied head is written as a second name of the embedding, as in a module's state dict.
    std::map<std::string, std::string> shared;
    if (run.modules.model == nullptr)
      for (const auto& t : formats::hugging_face_tied(run.term->plan.spec.family->model_type, names))
        shared.emplace(t.name, t.of);
    const bool file = extension == ".bin" || extension == ".pt";
    std::error_code ec;
    if (!file) std::filesystem::create_directories(path, ec);
    if (ec) return core::fail(core::error_kind::io, fmt::format("cannot make '{}': {}", path.string(), ec.message()));
    TROUPE_TRY(formats::write_torch_archive(file ? path : path / default_file_name, tensors, shared));
  }
  return true;
}

}  // namespace

core::result<bool> save_16bit_model(training_run& run, const std::filesystem::path& path,
                                    bool exclude_frozen_parameters) {
  return run.outlast([&] { return write_16bit_model(run, path, exclude_frozen_parameters); });
}

}  // namespace troupe::actors
