// Describes a checkpoint: writes the text by hand, and the JSON with nlohmann.
#include "formats/report/inspect.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "core/tensor_view.hpp"
#include "core/text.hpp"
#include "formats/safetensors/header.hpp"
#include "formats/source/shard_header.hpp"
#include "formats/torch/archive.hpp"
#include "formats/weights/torch.hpp"

namespace troupe::formats {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

/// Returns " of shares along dimension 1 of 384: 192, 192" (size, width of each rank); empty if the tensor is not cut.
std::string cut_text(const core::parameter_cut& cut) {
  return cut.cuts() ? fmt::format(" of shares along dimension {} of {}", cut.dimension, core::widths_text(cut)) : "";
}

/// Returns the name of the stored form of the tensor's elements, such as `q4_0`; null if they are stored in the
/// tensor's own type.
const std::string* stored_as(const tensor_source& s, const tensor_entry& t) {
  const auto at = s.stored_as.find(t.name);
  return at == s.stored_as.end() ? nullptr : &at->second;
}

std::string stored_text(const tensor_source& s, const tensor_entry& t) {
  const auto* how = stored_as(s, t);
  return how == nullptr ? "" : fmt::format(" from {}", *how);
}

struct holding {  ///< number and total size of the pieces in one file
  uint64_t pieces = 0, bytes = 0;
};

std::vector<holding> holdings_of(const tensor_source& s) {
  std::vector<holding> out(s.files.size());
  for (const auto& t : s.tensors)
    for (const auto& p : t.pieces) {
      ++out[p.file].pieces;
      out[p.file].bytes += p.count * core::size_of(t.type);
    }
  return out;
}

uint64_t all_bytes(const tensor_source& s) {
  uint64_t out = 0;
  for (const auto& t : s.tensors) out += bytes_of_tensor(t);
  return out;
}

std::vector<std::string> parts_of(const std::string& name) {
  std::vector<std::string> out(1);
  for (const char c : shown(name)) {
    if (c == '.')
      out.emplace_back();
    else
      out.back() += c;
  }
  return out;
}

bool is_of_torch(const fs::path& file) {
  const auto ending = file.extension();
  return ending == ".pt" || ending == ".pth" || ending == ".bin" || ending == ".ckpt";
}

template <class T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

json run_json(const source_run& r) {
  json out{{"step", or_null(r.steps)},
           {"applied_updates", or_null(r.applied_updates)},
           {"loss_scale", nullptr},
           {"schedule_position", or_null(r.schedule_position)},
           {"data_position", or_null(r.samples)},
           {"samples_per_step", or_null(r.samples_per_step)},
           {"seed", or_null(r.seed)},
           {"config", r.config},
           {"model", r.model},
           {"client_state", r.client_state}};
  if (r.teacher) out["teacher"] = {{"folder", r.teacher->folder}, {"digest", storage::to_hex(r.teacher->digest)}};
  if (r.data) {
    auto& data = out["data"] = {{"sequence_length", r.data->sequence_length},
                                {"validation_fraction", r.data->validation_fraction},
                                {"tokenizer", r.data->tokenizer},
                                {"sources", json::array()}};
    for (const auto& x : r.data->sources)
      data["sources"].push_back(
          {{"name", x.name}, {"share", x.share}, {"tokens", x.tokens}, {"digest", storage::to_hex(x.digest)}});
    for (const auto& x : r.data->validation)
      data["validation"].push_back({{"set", x.set}, {"tokens", x.tokens}, {"digest", storage::to_hex(x.digest)}});
    if (r.data->end_of_text) data["end_of_text"] = or_null(*r.data->end_of_text);
  }
  for (const auto& x : r.left_out) {
    auto& one = out["left_out"].emplace_back(
        json{{"steps", {x.first, x.last}}, {"after_spike", x.after_spike}, {"samples", json::array()}});
    for (const auto& s : x.samples) one["samples"].push_back({s.begin, s.end});
  }
  for (const auto& x : r.group_changes)
    out["group_changes"].push_back({x.group, or_null(x.learning_rate), or_null(x.weight_decay)});
  if (r.loss_scale)
    out["loss_scale"] = {{"cur_scale", r.loss_scale->cur_scale},
                         {"cur_iter", r.loss_scale->cur_iter},
                         {"last_overflow_iter", r.loss_scale->last_overflow_iter},
                         {"cur_hysteresis", r.loss_scale->cur_hysteresis}};
  return out;
}

/// Returns the rank that wrote a file of a Troupe checkpoint, by the file's name.
std::optional<uint32_t> writer_of(const tensor_source& s, uint32_t file) {
  if (s.format != "troupe") return std::nullopt;
  return shard_number_of(s.files[file].path.filename().string());
}

/// Returns a remark for the list of files: the machine whose disk has the file, or that the file is virtual; empty for
/// a plain file of this machine.
std::string how_there(const source_file& f) {
  if (!f.host.empty()) return " on the disk of " + f.host;
  return f.view != nullptr ? " as numbers" : "";
}

std::string head_of(const tensor_source& s) {
  std::string run;
  if (s.run.steps) run += fmt::format(", step {}", *s.run.steps);
  if (s.run.applied_updates) run += fmt::format(" ({} updates applied)", *s.run.applied_updates);
  const auto views = std::ranges::count_if(s.files, [](const auto& f) { return f.view != nullptr && f.host.empty(); });
  const size_t files = s.files.size() - static_cast<size_t>(views);
  return fmt::format("{}: {}{}, {} {} of {} in {} {}\n", shown_place(s), s.format, run, s.tensors.size(),
                     s.tensors.size() == 1 ? "tensor" : "tensors", core::human_bytes(all_bytes(s)), files,
                     files == 1 ? "file" : "files");
}

}  // namespace

std::string shown_file(const tensor_source& s, uint32_t number) {
  const auto& path = s.files[number].path;
  const auto relative = path.lexically_relative(s.folder);
  const bool inside = !relative.empty() && *relative.begin() != ".." && relative != ".";
  return shown((inside ? relative : path).string());
}

std::vector<unknown_names> unknown_names_in(const tensor_source& s) {
  std::set<fs::path> files;
  for (const auto& f : s.files) files.insert(f.path);
  std::error_code e;
  const bool is_folder = s.format != torch_save_format;  // other files next to a single file are not reported
  for (fs::directory_iterator at = is_folder ? fs::directory_iterator(s.folder, e) : fs::directory_iterator(), end;
       !e && at != end; at.increment(e))
    files.insert(at->path());
  std::vector<unknown_names> out;
  for (const auto& path : files) {
    if (!is_of_torch(path)) continue;
    if (const auto opened = torch_archive::open(path))
      if (auto names = opened->unknown_globals(); !names.empty()) out.push_back({path, std::move(names)});
  }
  return out;
}

std::string inspect_text(const tensor_source& s) {
  std::string out = head_of(s);
  for (const auto& line : s.found) out += line + "\n";  // names in the lines are shortened already
  std::vector<std::string> open;
  for (const auto& t : s.tensors) {
    const auto parts = parts_of(t.name);
    size_t same = 0;
    while (same < open.size() && same < parts.size() && open[same] == parts[same]) ++same;
    for (size_t depth = same; depth < parts.size(); ++depth)
      out += fmt::format("{:{}}{}{}\n", "", 2 * depth + 2, parts[depth],
                         depth + 1 < parts.size() ? "" : fmt::format("  {}", t.shape));
    open = parts;
    std::set<uint32_t> in;
    for (const auto& p : t.pieces) in.insert(p.file);
    std::vector<std::string> names;
    for (const uint32_t f : in) names.push_back(shown_file(s, f));
    out += fmt::format("{:{}}{} {}{}, {}, {} {}{}: {}\n", "", 2 * parts.size() + 2,
                       t.kind == tensor_kind::moment ? shown(t.moment) : std::string(name_of(t.kind)),
                       core::name_of(t.type), stored_text(s, t), core::human_bytes(bytes_of_tensor(t)), t.pieces.size(),
                       t.pieces.size() == 1 ? "piece" : "pieces", cut_text(t.cut), fmt::join(names, ", "));
  }
  for (const auto& t : s.tied) out += fmt::format("  {} is {}\n", shown(t.name), shown(t.of));
  const auto holdings = holdings_of(s);
  for (uint32_t f = 0; f < s.files.size(); ++f)
    out += fmt::format("{}{}{}: {}, {} {} of {}\n", shown_file(s, f),
                       writer_of(s, f) ? fmt::format(" of rank {}", *writer_of(s, f)) : "", how_there(s.files[f]),
                       core::human_bytes(s.files[f].bytes), holdings[f].pieces,
                       holdings[f].pieces == 1 ? "piece" : "pieces", core::human_bytes(holdings[f].bytes));
  for (const auto& line : s.remarks)  // names in the remarks are shortened already
    out += (line.starts_with(left_out_mark) ? line : shown(line)) + "\n";
  for (const auto& u : unknown_names_in(s))
    out += fmt::format("{}: unknown names, not imported: {}\n", u.file.filename().string(), fmt::join(u.names, ", "));
  return out;
}

std::string inspect_json(const tensor_source& s) {
  json out{{"folder", s.folder.string()},
           {"format", s.format},
           {"save_id", s.save_id ? json(storage::to_hex(*s.save_id)) : json(nullptr)},
           {"run", run_json(s.run)}};
  const auto holdings = holdings_of(s);
  auto& files = out["files"] = json::array();
  for (uint32_t f = 0; f < s.files.size(); ++f)
    files.push_back({{"name", shown_file(s, f)},
                     {"bytes", s.files[f].bytes},
                     {"pieces", holdings[f].pieces},
                     {"piece_bytes", holdings[f].bytes}});
  for (uint32_t f = 0; f < s.files.size(); ++f) {
    if (const auto rank = writer_of(s, f)) files[f]["rank"] = *rank;
    if (!s.files[f].host.empty()) files[f]["host"] = s.files[f].host;
  }
  uint64_t elements = 0;
  auto& tensors = out["tensors"] = json::array();
  for (const auto& t : s.tensors) {
    elements += core::numel_of(t.shape);
    json pieces = json::array();
    for (const auto& p : t.pieces) {
      pieces.push_back(
          {{"file", shown_file(s, p.file)}, {"first", p.first}, {"count", p.count}, {"offset_bytes", p.offset_bytes}});
      if (s.has_digests) pieces.back()["digest"] = storage::to_hex(p.digest);
      if (t.cut.cuts()) pieces.back()["share"] = p.share;
    }
    tensors.push_back({{"name", t.name},
                       {"kind", name_of(t.kind)},
                       {"moment", t.moment},
                       {"dtype", core::name_of(t.type)},
                       {"shape", t.shape},
                       {"bytes", bytes_of_tensor(t)},
                       {"pieces", std::move(pieces)}});
    if (const auto* how = stored_as(s, t)) tensors.back()["stored_as"] = *how;
    if (t.cut.cuts())
      tensors.back()["cut"] = {
          {"style", core::name_of(t.cut.style)}, {"dimension", t.cut.dimension}, {"parts", t.cut.parts}};
  }
  auto& tied = out["tied"] = json::array();
  for (const auto& t : s.tied) tied.push_back({{"name", t.name}, {"of", t.of}});
  out["remarks"] = s.remarks;
  out["found"] = s.found;
  auto& unread = out["unread"] = json::array();
  for (const auto& t : s.unread) unread.push_back({{"name", t.name}, {"type", t.type}});
  auto& unknown = out["unknown_names"] = json::array();
  for (const auto& u : unknown_names_in(s))
    unknown.push_back({{"file", u.file.filename().string()}, {"names", u.names}});
  out["elements"] = elements;
  out["bytes"] = all_bytes(s);
  return out.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace troupe::formats
