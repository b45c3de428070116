#include "formats/gguf/source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "core/lfs_pointer.hpp"
#include "core/math.hpp"
#include "families/all_families.hpp"
#include "formats/gguf/decoded_file.hpp"
#include "formats/gguf/families.hpp"
#include "formats/gguf/model.hpp"
#include "formats/names/name_map.hpp"

namespace troupe::formats {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view format_name = "GGUF";
constexpr uint64_t view_alignment_bytes = 8;
/// Indices of the GGUF file itself and of its decoded view in the source's files.
constexpr uint32_t plain_file = 0, view_file = 1;

std::vector<int64_t> shape_of(const gguf_tensor& t, gguf_order order) {
  std::vector<int64_t> out(t.extents.rbegin(), t.extents.rend());
  if (order == gguf_order::transposed) std::ranges::reverse(out);
  return out;
}

/// Returns the number of rows of one attention head of `t`, 0 for orders other than the rotary ones. Refuses an order
/// that does not fit the tensor's shape.
core::result<uint64_t> head_rows_of(const gguf_tensor& t, gguf_order order, const gguf_model& m) {
  if (order == gguf_order::same) return uint64_t{0};
  if (order == gguf_order::raised) {
    if (t.type == gguf_type::f32) return uint64_t{0};
    return fail(error_kind::bad_input, fmt::format("wanted a norm in F32, got {}", name_of(t.type)));
  }
  if (order == gguf_order::transposed) {
    if (t.extents.size() == 2) return uint64_t{0};
    return fail(error_kind::bad_input, fmt::format("{} extents, wanted a matrix", t.extents.size()));
  }
  if (order == gguf_order::by_head) {
    const uint64_t all = uint64_t{3} * m.heads * m.head_width;
    const bool is_plain_bias = t.extents.size() == 1 && !blocks_of(t.type) && t.extents[0] == all;
    if (is_plain_bias || (t.extents.size() == 2 && t.extents[1] == all)) return uint64_t{m.head_width};
    return fail(error_kind::bad_input, fmt::format("wanted {} rows, 3 for each element of all heads", all));
  }
  if (t.extents.size() == 1 && blocks_of(t.type))
    return fail(error_kind::bad_input, fmt::format("a bias in {}, wanted plain numbers", name_of(t.type)));
  const uint64_t heads = order == gguf_order::query_rotary ? m.heads : m.kv_heads;
  const uint64_t rows = t.extents.size() == 1 ? t.extents[0] : t.extents[1];
  if (t.extents.size() > 2 || rows % heads != 0 || rows / heads % 2 != 0)
    return fail(error_kind::bad_input, fmt::format("{} rows, wanted an even number for each of {} heads", rows, heads));
  return rows / heads;
}

/// Refuses the metadata of a file that contains only a part of a split model, or an adapter.
core::result<void> check_is_whole_model(const gguf_metadata& keys) {
  if (keys.text("general.type") == "adapter")
    return core::refused(
        "it is an adapter, not a whole model: `troupe checkpoint merge-adapter BASE ADAPTER OUT` merges it into its "
        "base model");
  const auto parts = keys.whole("split.count").value_or(1);
  if (parts < 2) return {};
  return core::refused(fmt::format("it is part {} of {} of a model: join them first, by `llama-gguf-split --merge`",
                                   keys.whole("split.no").value_or(0) + 1, parts));
}

}  // namespace

core::result<tensor_source> read_gguf_source(const fs::path& path) {
  TROUPE_ASSIGN(const auto file, core::source_file::open(path));
  TROUPE_TRY(core::refuse_lfs_pointer(file));
  TROUPE_ASSIGN(const auto header, read_gguf_header(file));
  const auto refused = [&](const core::error& e) { return fail(e.in(fmt::format("'{}'", path.string()))); };
  if (auto whole = check_is_whole_model(header.metadata); !whole) return refused(whole.error());
  auto model = model_of(header);
  if (!model) return refused(model.error());
  if (*model) TROUPE_TRY(read_rope_divisors(file, header, **model));
  const std::string architecture = *model ? (*model)->architecture : std::string();
  const auto* const family = families::find_gguf(architecture);
  const std::string_view model_type = family == nullptr ? std::string_view() : family->model_type;

  tensor_source out;
  out.format = format_name;
  out.folder = path.parent_path();
  if (*model) out.run.model = hugging_face_keys(**model, header.metadata);
  std::vector<decoded_tensor> decoded;
  uint64_t view_bytes = 0;
  for (const auto& t : header.tensors) {
    const auto known = parameter_of(architecture, t.name);
    const auto order = known ? known->order : gguf_order::same;
    const auto type = dtype_of(t.type);
    tensor_entry entry{known ? hugging_face_name(model_type, known->name) : t.name,
                       tensor_kind::weight,
                       {},
                       type,
                       shape_of(t, order),
                       {}};
    if (blocks_of(t.type)) out.stored_as.emplace(entry.name, name_of(t.type));
    const uint64_t begin = header.data_begin + t.offset_bytes;
    if (order == gguf_order::same && !blocks_of(t.type)) {
      entry.pieces.push_back({plain_file, 0, t.elements(), begin, {}});
    } else {
      const auto head_rows = *model ? head_rows_of(t, order, **model) : uint64_t{0};
      if (!head_rows) return refused(head_rows.error().in(fmt::format("tensor '{}'", shown(t.name))));
      decoded.push_back({t, begin, view_bytes, order, *head_rows});
      // The rows of a bias in rotary order are reordered as rows of one element.
      if (*head_rows != 0 && t.extents.size() == 1) decoded.back().stored.extents = {1, t.extents[0]};
      entry.pieces.push_back({view_file, 0, t.elements(), view_bytes, {}});
      view_bytes = core::round_up(view_bytes + decoded.back().bytes(), view_alignment_bytes);
    }
    out.tensors.push_back(std::move(entry));
  }
  out.files.push_back({path, file.size()});
  if (!decoded.empty()) {
    auto view = std::make_shared<const decoded_view>(path, file.size(), std::move(decoded));
    const uint64_t bytes = view->bytes();
    out.files.push_back({.path = path, .bytes = bytes, .view = std::move(view)});
  }
  if (auto ok = complete(out); !ok) return refused(ok.error());
  return out;
}

constexpr source_format gguf_format{
    .described = "weights in a GGUF file",
    .file_kind = "a GGUF file",
    .in_file =
        [](const file_start& start) { return begins_like_gguf(start.bytes) ? likeness::certain : likeness::none; },
    .open = [](const fs::path& path, const source_options&) { return read_gguf_source(path); },
};

core::result<gguf_metadata> gguf_metadata_of(const tensor_source& s) {
  if (s.format != format_name || s.files.empty()) return gguf_metadata{};
  TROUPE_ASSIGN(const auto file, core::source_file::open(s.files[plain_file].path));
  TROUPE_ASSIGN(auto header, read_gguf_header(file));
  return std::move(header.metadata);
}

}  // namespace troupe::formats
