#include "formats/weights/torch.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "formats/safetensors/weights_folder.hpp"
#include "formats/safetensors/weights_index.hpp"
#include "formats/source/strided_view.hpp"
#include "formats/torch/archive.hpp"
#include "formats/trainer/trainer.hpp"
#include "formats/weights/hugging_face.hpp"
#include "formats/weights/torch_contents.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::formats {
namespace {

namespace fs = std::filesystem;

/// Endings of the names of GPT-2's linear layers.
constexpr std::array<std::string_view, 4> gpt2_linear_names{".attn.c_attn.weight", ".attn.c_proj.weight",
                                                            ".mlp.c_fc.weight", ".mlp.c_proj.weight"};

bool is_gpt2_linear(std::string_view name) {
  return std::ranges::any_of(gpt2_linear_names, [&](std::string_view end) { return name.ends_with(end); });
}

/// True if the file is a ckpt.pt of nanoGPT: `model_args` next to a model with GPT-2's names, whose linear layers have
/// the shape (out, in), whereas Hugging Face's GPT-2 has (in, out). The shape of the attention's weight, which is never
/// square, decides.
bool is_nanogpts(const torch_archive& archive, const torch_contents& contents) {
  const auto& tree = archive.tree();
  const auto args =
      tree.kind(archive.root()) == pickle_kind::dict ? tree.find(archive.root(), "model_args") : std::nullopt;
  if (!args || tree.kind(*args) != pickle_kind::dict) return false;
  for (const auto& [name, value] : contents.tensors) {
    if (!name.ends_with(gpt2_linear_names.front())) continue;
    const auto t = archive.tensor(value);
    return t && t->shape.size() == 2 && t->shape[0] / 3 == t->shape[1] && t->shape[0] % 3 == 0;
  }
  return false;
}

/// Reads torch.save files into one source.
class torch_reader {
 public:
  tensor_source out;

  /// Adds a file and its tensors. `named` lists the tensors that an index assigns to the file; null: all tensors.
  core::result<void> add(const fs::path& path, const std::set<std::string>* named) {
    std::error_code ec;
    const fs::path real = fs::canonical(path, ec);
    TROUPE_ASSIGN(const auto archive, torch_archive::open(path));
    const auto number = static_cast<uint32_t>(out.files.size());
    out.files.push_back(file_of(ec ? path : real, archive));
    TROUPE_ASSIGN(const auto contents, contents_of(archive));
    std::set<std::string_view> there;
    for (const auto& [name, value] : contents.tensors) there.insert(name);
    if (named != nullptr)
      for (const auto& name : *named)
        if (!there.contains(name))
          return fail(error_kind::bad_input,
                      fmt::format("the index lists tensor '{}' in '{}', which does not contain it", shown(name),
                                  path.string()));
    turns_ = is_nanogpts(archive, contents);
    size_t turned = 0;
    for (const auto& [name, value] : contents.tensors) {
      turned += turns_ && is_gpt2_linear(name) ? 1 : 0;
      if (named != nullptr && !named->contains(name)) continue;
      if (auto type = archive.unread_type(value); !type.empty()) {
        out.unread.push_back({name, std::move(type)});
        continue;
      }
      if (auto ok = add_tensor(archive, number, name, value); !ok)
        return fail(ok.error().in(fmt::format("'{}': tensor '{}'", path.string(), shown(name))));
    }
    if (turns_)
      out.remarks.push_back(fmt::format(
          "{}{} linear layers of nanoGPT are transposed from (out, in) to (in, out), the order of Hugging Face's GPT-2",
          changed_mark, turned));
    if (!contents.dictionary.empty())
      out.remarks.push_back(
          fmt::format("the model is the dictionary {}, the only one with tensors", contents.dictionary));
    say_left_out(contents.left_out);
    return {};
  }

 private:
  void say_left_out(const std::vector<std::string>& names) {
    if (names.empty()) return;
    const auto listed = std::span(names).first(std::min(names.size(), max_listed_left_out));
    const auto more = names.size() > listed.size() ? fmt::format("; and {} more", names.size() - listed.size()) : "";
    out.remarks.push_back(fmt::format("{}{}{}", left_out_mark, fmt::join(listed, "; "), more));
  }

  core::result<void> add_tensor(const torch_archive& archive, uint32_t file, const std::string& name, pickle_ref v) {
    TROUPE_ASSIGN(auto t, archive.tensor(v));
    if (turns_ && is_gpt2_linear(name) && t.shape.size() == 2) {
      std::swap(t.shape[0], t.shape[1]);
      std::swap(t.strides[0], t.strides[1]);
    }
    const auto [first, fresh] = seen_.try_emplace({file, t.begin, t.type, t.shape, t.strides}, name);
    if (!fresh && t.numel > 0) {
      out.tied.push_back({name, first->second});
      return {};
    }
    tensor_entry entry{name, tensor_kind::weight, {}, t.type, t.shape, {}};
    TROUPE_TRY(views_.add(entry.pieces, out, file, t));
    out.tensors.push_back(std::move(entry));
    out.parameter_order.push_back(name);
    return {};
  }

  std::map<std::tuple<uint32_t, uint64_t, core::dtype, std::vector<int64_t>, std::vector<int64_t>>, std::string> seen_;
  strided_views views_;
  bool turns_ = false;  ///< true: linear layers of the current file are transposed
};

}  // namespace

core::result<tensor_source> read_torch_source(const fs::path& path) {
  std::error_code ec;
  torch_reader reader;
  const bool is_folder = fs::is_directory(path, ec), is_index = !is_folder && is_index_name(path);
  reader.out.format = is_folder || is_index ? "Hugging Face" : std::string(torch_save_format);
  const fs::path folder = is_folder ? path : path.parent_path();
  reader.out.folder = folder;
  fs::path single = is_folder ? path / torch_file_name : path;
  if (is_folder && !fs::exists(single, ec) && fs::exists(path / full_fsdp_file_name, ec))
    single = path / full_fsdp_file_name;
  if (!is_index && (!is_folder || fs::exists(single, ec))) {
    TROUPE_TRY(reader.add(single, nullptr));
  } else {
    const fs::path index =
        is_index
            ? path
            : find_weights_index(path, torch_index_file_name, torch_index_infix).value_or(path / torch_index_file_name);
    TROUPE_ASSIGN(const auto weights, read_weights_index(index));
    std::map<std::string, std::set<std::string>> files;
    for (const auto& [tensor, file] : weights) files[file].insert(tensor);
    if (files.size() > max_shards)
      return fail(error_kind::limit, fmt::format("'{}' names more than {} files", index.string(), max_shards));
    for (const auto& [file, names] : files) {
      const auto where = indexed_file(folder, file);
      if (!where) return fail(where.error().in(fmt::format("'{}'", index.string())));
      if (auto ok = reader.add(*where, &names); !ok) return fail(ok.error().in(fmt::format("'{}'", index.string())));
    }
  }
  if (is_folder || is_index) {
    TROUPE_ASSIGN(auto model, read_model_config(folder));
    reader.out.run.model = std::move(model);
  }
  say_unread(reader.out.remarks, reader.out.unread);
  TROUPE_TRY(complete(reader.out));
  return std::move(reader.out);
}

constexpr source_format torch_format{
    .described = "weights in files of torch.save",
    .file_kind = "a torch.save file",
    .in_folder = [](const fs::path& folder) -> core::result<likeness> {
      for (const auto name : {torch_file_name, torch_index_file_name, full_fsdp_file_name})
        if (storage::is_there(folder / name)) return likeness::certain;
      const auto index = find_weights_index(folder, torch_index_file_name, torch_index_infix);
      return index ? likeness::possible : likeness::none;
    },
    .in_file =
        [](const file_start& start) {
          // An index may list files of any name: those that are not safetensors are files of torch.save.
          const bool is_listed = !start.first_shard.empty();
          const bool is_zip = start.byte(0) == 'P' && start.byte(1) == 'K', is_pickle = start.byte(0) == 0x80;
          return is_listed || is_zip || is_pickle ? likeness::possible : likeness::none;
        },
    .has_states = has_optimizer_file,
    .open = [](const fs::path& path, const source_options&) { return read_torch_source(path); },
    .is_model_folder = true,
    .has_module_names = true,
    .has_trainer_files = true,
    .lies_below_config = true,
};

}  // namespace troupe::formats
