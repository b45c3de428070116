#include "checkpoint/convert/reshape.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "checkpoint/commit/commit.hpp"
#include "checkpoint/convert/reshape_files.hpp"
#include "checkpoint/convert/reshape_plan.hpp"
#include "checkpoint/convert/reshape_rules.hpp"
#include "core/json_text.hpp"
#include "core/tensor_view.hpp"
#include "formats/megatron/published_patterns.hpp"
#include "formats/names/layer_names.hpp"
#include "formats/report/verify.hpp"
#include "storage/files/atomic_file.hpp"
#include "storage/files/working_folder.hpp"

namespace troupe::checkpoint {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr size_t max_written_tag_bytes = 200;

core::result<void> check_tag(const std::string& tag) {
  if (tag.empty() || tag.size() > max_written_tag_bytes || tag.front() == '.' ||
      tag.find_first_of("/\n\r\t ") != std::string::npos)
    return fail(error_kind::bad_input, fmt::format("'{}' cannot be the tag of a checkpoint: use a name without '/' and "
                                                   "white space that does not begin with '.'",
                                                   tag));
  return {};
}

/// Returns the client state as an object; a state that is not an object is stored under a key of its own.
core::result<json> client_of(const formats::tensor_source& from) {
  auto client = core::parse_json(from.run.client_state);
  if (!client)
    return fail(error_kind::bad_input,
                fmt::format("'{}': its client state is not JSON of up to {} levels: {}", formats::shown_place(from),
                            core::max_json_depth, client.error().why));
  if (client->is_null()) return json::object();
  if (!client->is_object()) return json{{"client_state", std::move(*client)}};
  return std::move(*client);
}

/// Refuses damaged bytes of a source with digests. Checks whole pieces, because ranks read parts of pieces, which have
/// no digests.
core::result<void> check_digests(const formats::tensor_source& from) {
  if (!from.has_digests) return {};
  TROUPE_ASSIGN(const auto report, formats::verify_source(storage::real_files(), from));
  return report.damages == 0 ? core::result<void>() : core::refused(report.listed.front().text);
}

core::result<void> reorder(formats::tensor_source& s, formats::qkv_version from, formats::qkv_version to,
                           uint32_t heads) {
  if (from == to) return {};
  for (auto& t : s.tensors) {
    if (t.name.find("attention.query_key_value") == std::string::npos || t.shape.empty()) continue;
    TROUPE_ASSIGN(auto other, formats::reordered_qkv(t, from, to, heads));
    t = std::move(other);
  }
  s.has_digests = false;
  return {};
}

/// Restricts the options, which are for all parameters, to the parameters of one rank.
formats::deepspeed_write_options options_of(const formats::deepspeed_write_options& all,
                                            const formats::tensor_source& rank, const pipeline_map& map) {
  auto out = all;
  out.order.clear();
  std::set<std::string> names;
  for (const auto& t : rank.tensors) names.insert(t.name);
  std::erase_if(out.groups, [&](auto& g) {
    if (g.parameters.empty()) return false;
    for (auto& n : g.parameters) n = pipeline_name(map, n);
    std::erase_if(g.parameters, [&](const auto& n) { return !names.contains(n); });
    return g.parameters.empty();
  });
  if (out.groups.empty()) out.groups = {{}};
  for (auto& [alias, owner] : out.shared) owner = pipeline_name(map, owner);
  std::erase_if(out.shared, [&](const auto& s) { return !names.contains(s.second); });
  return out;
}

/// The source in the form in which it is cut: with the written names, and query_key_value in the wanted version.
struct prepared {
  formats::tensor_source whole;
  formats::deepspeed_write_options write;  ///< options in which parameters have their written names
  json client;
  chosen_rules rules;
};

/// Renames the tensors to the written names before layers are numbered, because the layer's number precedes the written
/// name.
core::result<void> take_written_names(prepared& p) {
  if (!p.write.name) return {};
  const auto name = std::exchange(p.write.name, {});
  std::map<std::string, std::string, std::less<>> before;
  for (const auto& t : p.whole.tensors) before.emplace(name(t.name), t.name);
  p.rules.rule = [before = std::move(before), inner = p.rules.rule](std::string_view written) {
    const auto at = before.find(written);
    return inner(at == before.end() ? written : std::string_view(at->second));
  };
  for (auto& group : p.write.groups)
    for (auto& parameter : group.parameters) parameter = name(parameter);
  for (auto& parameter : p.write.order) parameter = name(parameter);
  TROUPE_ASSIGN(auto named, formats::renamed(std::move(p.whole), name));
  p.whole = std::move(named);
  return {};
}

core::result<void> prepare(prepared& p, const formats::tensor_source& from, const reshape_options& o) {
  p.whole = from;
  p.whole.save_id.reset();  // `whole` will also list files without a header, which therefore do not contain this id
  TROUPE_ASSIGN(auto client, client_of(from));
  p.client = std::move(client);
  TROUPE_ASSIGN(auto rules, choose_rules(from, o.patterns, o.qkv_version, {o.cuts, o.to.tensor}));
  p.rules = std::move(rules);
  p.write = o.write;
  TROUPE_TRY(take_written_names(p));
  if (!p.write.order.empty()) p.whole.parameter_order = p.write.order;
  if (!p.rules.are_megatrons) return {};
  auto written = p.rules.version;
  if (o.to_qkv_version) {
    TROUPE_ASSIGN(const auto wanted, formats::qkv_version_from(*o.to_qkv_version));
    TROUPE_TRY(reorder(p.whole, p.rules.version, wanted, o.heads));
    written = wanted;
    p.rules.version = written;
    p.rules.rule = [written, before = p.rules.rule](std::string_view name) -> core::result<formats::cut_rule> {
      auto rule = before(name);
      return rule && rule->kind == formats::cut_kind::along ? formats::megatron_rule(name, written) : rule;
    };
  }
  p.client["checkpoint_version"] = static_cast<double>(written);
  return {};
}

core::result<void> publish(prepared& p, const reshape_plan& plan, const reshape_options& o) {
  const auto written = [&](const std::string& name) { return pipeline_name(plan.map(), name); };
  if (!p.rules.are_megatrons && o.to.tensor > 1) {
    std::vector<formats::published_rule> all;
    for (const auto& t : p.whole.tensors) {
      if (t.kind == formats::tensor_kind::moment || t.kind == formats::tensor_kind::buffer) continue;
      if (!all.empty() && all.back().name == written(t.name)) continue;
      TROUPE_ASSIGN(auto rule, p.rules.rule(t.name));
      all.push_back({written(t.name), t.shape, std::move(rule)});
    }
    TROUPE_ASSIGN(auto info, formats::universal_info_json(all, o.to.tensor));
    p.client["universal_checkpoint_info"] = json::parse(info);
  }
  // Prefixes are stored only for a model that becomes a pipeline. If the source is a pipeline, its map has at most the
  // prefixes of tied modules, and readers find the names of these modules by the shapes of their tensors.
  if (!plan.map().prefixes.empty() && plan.map().prefixes.begin()->second.rfind("tied_modules.", 0) != 0) {
    auto& prefixes = p.client[std::string(formats::layer_prefixes_key)] = json::object();
    for (const auto& [layer, prefix] : plan.map().prefixes) prefixes[fmt::to_string(layer)] = prefix;
  }
  return {};
}

/// Removes the working folders that earlier, interrupted writings of this tag left.
core::result<void> remove_unfinished(storage::file_system& files, const fs::path& root, const std::string& tag) {
  TROUPE_ASSIGN(const auto entries, files.list(root));
  std::error_code ec;
  for (const auto& e : entries)
    if (e.kind == storage::entry_kind::folder && storage::is_beside(e.name, tag, storage::writing_mark))
      fs::remove_all(root / e.name, ec);
  return {};
}

}  // namespace

core::result<reshape_report> reshape(const formats::tensor_source& from, const fs::path& root,
                                     const reshape_options& options, storage::file_system& files) {
  const std::string tag = options.write.tag.value_or(
      fmt::format("global_step{}", from.run.steps.value_or(from.run.applied_updates.value_or(0))));
  TROUPE_TRY(check_tag(tag));
  prepared p;
  TROUPE_TRY(prepare(p, from, options));
  TROUPE_TRY(check_digests(from));
  TROUPE_ASSIGN(const auto padding, padding_bytes(p.whole, options.to.tensor, p.rules.rule));
  const fs::path working = root / storage::beside(tag, storage::writing_mark, storage::random_save_id()),
                 zeros = working / "zeros";
  std::optional<uint32_t> zeros_file;
  if (padding > 0) {
    zeros_file = static_cast<uint32_t>(p.whole.files.size());
    p.whole.files.push_back({zeros, padding});
  }
  TROUPE_ASSIGN(const auto plan,
                reshape_plan::create(p.whole, options.to, p.rules.rule, options.partition, zeros_file));
  TROUPE_TRY(publish(p, plan, options));
  p.whole.run.client_state = p.client.dump();

  reshape_report report{root / tag, 0, 0};
  TROUPE_TRY(storage::make_folders(files, root));
  TROUPE_ASSIGN(const auto taken, files.exists(report.folder));
  if (taken)
    return fail(error_kind::bad_input,
                fmt::format("'{}' already exists; remove it or use another name", report.folder.string()));
  TROUPE_TRY(remove_unfinished(files, root, tag));
  TROUPE_ASSIGN(const auto room, files.free_bytes(root));
  if (room < plan.bytes())
    return fail(error_kind::no_space,
                fmt::format("'{}' needs at least {} bytes, {} are free", report.folder.string(), plan.bytes(), room));
  const auto write_all = [&]() -> core::result<void> {
    TROUPE_TRY(files.make_folder(working));
    if (padding > 0) TROUPE_TRY(write_zeros(zeros, padding));
    reshape_files writer(files, working, plan);
    for (uint32_t r = 0; r < plan.ranks(); ++r) {
      TROUPE_ASSIGN(const auto source, plan.rank(r));
      TROUPE_TRY(writer.write_rank(r, source, options_of(p.write, source, plan.map())));
    }
    report.bytes = writer.bytes();
    report.files = writer.files();
    if (padding > 0) TROUPE_TRY(files.remove(zeros));
    TROUPE_TRY(files.sync_folder(working));
    TROUPE_TRY(files.rename(working, report.folder));
    TROUPE_TRY(files.sync_folder(root));
    return storage::write_file_atomically(root / "latest", tag);
  };
  if (auto ok = write_all(); !ok) {
    std::error_code ec;
    fs::remove_all(working, ec);
    return fail(ok.error());
  }
  return report;
}

}  // namespace troupe::checkpoint
