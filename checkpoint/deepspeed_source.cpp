#include "checkpoint/deepspeed_source.hpp"

#include <fmt/format.h>

#include "checkpoint/deepspeed_files.hpp"
#include "checkpoint/deepspeed_part.hpp"
#include "checkpoint/deepspeed_run.hpp"

namespace troupe::checkpoint {

using core::error_kind;
using core::fail;

core::result<tensor_source> read_deepspeed_source(const std::filesystem::path& path,
                                                  const std::optional<std::string>& tag) {
  const auto folder = tag_folder(path, tag);
  if (!folder) return fail(folder.error());
  const auto files = list_deepspeed_files(*folder);
  if (!files) return fail(files.error());
  if (files->model.back().mp > 0 || !files->layers.empty())
    return fail(error_kind::bad_input,
                fmt::format("'{}' belongs to tensor parallelism or a pipeline", files->model.back().path.string()));
  tensor_source out;
  out.folder = *folder;
  uint32_t number = 0;
  const auto model = open_numbered(out.files, files->model.front().path, number);
  if (!model) return fail(model.error());
  out.run = run_of_model_file(*model);
  auto part = read_deepspeed_part(*files, 0, *model, number, out.files, out.run);
  if (!part) return fail(part.error());
  out.format = fmt::format("DeepSpeed ZeRO-{}", part->stage);
  out.tensors = std::move(part->tensors);
  out.tied = std::move(part->tied);
  out.parameter_order = std::move(part->order);
  if (auto ok = complete(out); !ok) return fail(ok.error());
  return out;
}

}  // namespace troupe::checkpoint
