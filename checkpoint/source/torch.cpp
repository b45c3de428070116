#include "checkpoint/source/torch.hpp"

#include <fmt/format.h>

#include <array>
#include <map>
#include <set>
#include <tuple>

#include "checkpoint/safetensors/weights_folder.hpp"
#include "checkpoint/safetensors/weights_index.hpp"
#include "checkpoint/source/hugging_face.hpp"
#include "checkpoint/torch/archive.hpp"
#include "checkpoint/torch/pieces.hpp"

namespace troupe::checkpoint {
namespace {

namespace fs = std::filesystem;
using core::error_kind;
using core::fail;

constexpr std::array<std::string_view, 4> nested_names{"module", "model", "state_dict", "model_state_dict"};

bool holds_tensors(const torch_archive& a, pickle_ref dict) {
  const auto& tree = a.tree();
  if (tree.kind(dict) != pickle_kind::dict) return false;
  const auto items = tree.items(dict);
  for (size_t i = 0; i + 1 < items.size(); i += 2)
    if (tree.kind(items[i]) == pickle_kind::text && a.is_tensor(items[i + 1])) return true;
  return false;
}

core::result<pickle_ref> state_dict_of(const torch_archive& a) {
  if (holds_tensors(a, a.root())) return a.root();
  if (a.tree().kind(a.root()) == pickle_kind::dict)
    for (const auto name : nested_names)
      if (const auto inner = a.tree().find(a.root(), name); inner && holds_tensors(a, *inner)) return *inner;
  return fail(error_kind::bad_input, fmt::format("'{}' holds no dictionary of tensors", a.name()));
}

/// Reads files into one source; names of all files together.
class torch_reader {
 public:
  tensor_source out;

  /// `named`: what an index says that the file holds; null for all of it.
  core::result<void> add(const fs::path& path, const std::set<std::string>* named) {
    std::error_code ec;
    const fs::path real = fs::canonical(path, ec);
    const auto archive = torch_archive::open(path);
    if (!archive) return fail(archive.error());
    const auto number = static_cast<uint32_t>(out.files.size());
    out.files.push_back({ec ? path : real, archive->file_bytes()});
    const auto state = state_dict_of(*archive);
    if (!state) return fail(state.error());
    const auto& tree = archive->tree();
    const auto items = tree.items(*state);
    std::map<std::string, pickle_ref> tensors;  // of a key that is set twice the later one
    std::vector<std::string> order;
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      if (tree.kind(items[i]) != pickle_kind::text || !archive->is_tensor(items[i + 1])) continue;
      std::string name(tree.text(items[i]));
      if (named != nullptr && !named->contains(name)) continue;
      if (tensors.insert_or_assign(name, items[i + 1]).second) order.push_back(std::move(name));
    }
    if (named != nullptr)
      for (const auto& name : *named)
        if (!tensors.contains(name))
          return fail(error_kind::bad_input,
                      fmt::format("the index says that tensor '{}' lies in '{}', which does not hold it", shown(name),
                                  path.string()));
    for (const auto& name : order)
      if (auto ok = add_tensor(*archive, number, name, tensors.at(name)); !ok)
        return fail(ok.error().in(fmt::format("'{}': tensor '{}'", path.string(), shown(name))));
    return {};
  }

 private:
  core::result<void> add_tensor(const torch_archive& archive, uint32_t file, const std::string& name, pickle_ref v) {
    const auto t = archive.tensor(v);
    if (!t) return fail(t.error());
    const auto [first, fresh] = seen_.try_emplace({file, t->begin, t->type, t->shape, t->strides}, name);
    if (!fresh && t->numel > 0) {
      out.tied.push_back({name, first->second});
      return {};
    }
    tensor_entry entry{name, tensor_kind::weight, {}, t->type, t->shape, {}};
    if (auto ok = add_pieces(entry.pieces, file, *t); !ok) return ok;
    out.tensors.push_back(std::move(entry));
    out.parameter_order.push_back(name);
    return {};
  }

  std::map<std::tuple<uint32_t, uint64_t, core::dtype, std::vector<int64_t>, std::vector<int64_t>>, std::string> seen_;
};

}  // namespace

core::result<tensor_source> read_torch_source(const fs::path& path) {
  std::error_code ec;
  torch_reader reader;
  const bool is_folder = fs::is_directory(path, ec), is_index = !is_folder && is_index_name(path);
  reader.out.format = is_folder || is_index ? "Hugging Face" : "torch.save";
  const fs::path folder = is_folder ? path : path.parent_path();
  reader.out.folder = folder;
  fs::path single = is_folder ? path / torch_file_name : path;
  if (is_folder && !fs::exists(single, ec) && fs::exists(path / full_fsdp_file_name, ec))
    single = path / full_fsdp_file_name;
  if (!is_index && (!is_folder || fs::exists(single, ec))) {
    if (auto ok = reader.add(single, nullptr); !ok) return fail(ok.error());
  } else {
    const fs::path index =
        is_index
            ? path
            : find_weights_index(path, torch_index_file_name, torch_index_infix).value_or(path / torch_index_file_name);
    const auto weights = read_weights_index(index);
    if (!weights) return fail(weights.error());
    std::map<std::string, std::set<std::string>> files;
    for (const auto& [tensor, file] : *weights) files[file].insert(tensor);
    if (files.size() > max_shards)
      return fail(error_kind::limit, fmt::format("'{}' names more than {} files", index.string(), max_shards));
    for (const auto& [file, names] : files) {
      const auto where = indexed_file(folder, file);
      if (!where) return fail(where.error().in(fmt::format("'{}'", index.string())));
      if (auto ok = reader.add(*where, &names); !ok) return fail(ok.error().in(fmt::format("'{}'", index.string())));
    }
  }
  if (is_folder || is_index) {
    auto model = read_model_config(folder);
    if (!model) return fail(model.error());
    reader.out.run.model = std::move(*model);
  }
  if (auto ok = complete(reader.out); !ok) return fail(ok.error());
  return std::move(reader.out);
}

}  // namespace troupe::checkpoint
