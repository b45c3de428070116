#include "config/load.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "config/accelerate.hpp"
#include "config/document/files.hpp"
#include "config/document/path_text.hpp"
#include "config/document/text_form.hpp"
#include "config/effective.hpp"
#include "config/keys/values.hpp"
#include "config/load_tree.hpp"
#include "config/open_degrees.hpp"
#include "core/text.hpp"

namespace troupe::config {

namespace {

namespace fs = std::filesystem;

class loading {
 public:
  explicit loading(const load_options& options) : options_(options) { report_.strict = options.strict; }

  load_result run(std::string_view text, const std::string& name, const fs::path& folder, const fs::path& file) {
    report_.sources.push_back({name, folder, source::job});
    node_ptr root = read_root(text, 0);
    if (root == nullptr) return give_up();
    choose_purpose(*root, text);
    return run_root(std::move(root), name, folder, file);
  }

  load_result run_tree(const document& tree, const std::string& name, const fs::path& folder) {
    report_.sources.push_back({name, folder, source::job});
    for (const problem& p : tree.problems) report_.error(p.at, p.key, p.text);
    if (tree.root == nullptr) return give_up();
    choose_purpose(*tree.root, {});
    return run_root(tree.root, name, folder, {});
  }

  load_result refuse_file(const std::string& name, std::string why) {
    report_.sources.push_back({name, {}, source::job});
    report_.error({0, 0, 0}, "", std::move(why));
    return give_up();
  }

 private:
  load_result run_root(node_ptr root, const std::string& name, const fs::path& folder, const fs::path& file) {
    if (why_ != purpose::deepspeed) warn_of_folder(folder);
    imports_accelerate_ = is_accelerate_file(*root);
    if (imports_accelerate_) root = accelerate_root(*root, report_);
    const node_ptr inside = take_inside(root);
    std::vector<settings> overrides;
    settings all = collect(*root, report_, why_);
    for (const std::string& text_of_override : options_.overrides)
      if (auto one = read_override(text_of_override)) overrides.push_back(std::move(*one));
    const setting* replaced = nullptr;
    for (const settings& one : overrides)
      if (const auto it = one.given.find("deepspeed_config"); it != one.given.end()) replaced = &it->second;
    if (inside != nullptr && replaced == nullptr) import_inside(all, *inside);
    const setting* const named = replaced == nullptr ? all.value_of("deepspeed_config") : replaced;
    if (named != nullptr && named->value != nullptr) import_file(all, node(*named->value));
    for (settings& one : overrides) all.override_with(std::move(one), report_);
    return finish(all, name, file);
  }

  load_result give_up() { return tl::unexpected(report_.in_order(diagnostic::error)); }

  /// Parses a configuration's text in any supported form and returns its root mapping; null, with an error reported, if
  /// there is none.
  node_ptr read_root(std::string_view text, uint32_t number) {
    const std::string& name = report_.sources[number].name;
    const bool is_yaml = name.ends_with(".yaml") || name.ends_with(".yml");
    const auto decoded = json_in_base64(text);
    const bool is_json = decoded || name.ends_with(".json") || (!is_yaml && looks_like_json(text));
    const document read = decoded   ? read_json(*decoded, number)
                          : is_json ? read_json(text, number)
                                    : read_yaml(text, number);
    for (const problem& p : read.problems) report_.error(p.at, p.key, p.text);
    if (read.root == nullptr || read.root->kind == node_kind::mapping) return read.root;
    report_.error(read.root->at, "", fmt::format("wanted a mapping of keys to values, got {}", shown(*read.root)));
    return nullptr;
  }

  void choose_purpose(const node& root, std::string_view text) {
    int own = 0;
    for (const char* name : {"model", "data", "steps"}) own += root.find(name) == nullptr ? 0 : 1;
    if (options_.read_as == reading::host_job) why_ = purpose::host_job;
    if (options_.read_as == reading::job || options_.read_as == reading::host_job ||
        (options_.read_as == reading::either && own >= 2))
      return;
    why_ = purpose::deepspeed;
    source& only = report_.sources[0];
    if (only.name.ends_with(".json") || looks_like_json(text) || json_in_base64(text)) only.kind = source::imported;
  }

  /// Warns about a folder whose name is not UTF-8: no configuration can name a path in it, so that the effective one of
  /// the run has other paths.
  void warn_of_folder(const fs::path& folder) {
    for (const fs::path& one : {folder, current_folder()})
      if (!core::is_utf8(one.string()))
        return report_.warn(
            {0, 1, 1}, "",
            fmt::format("paths in '{}' are not UTF-8 text: config.yaml and checkpoints record them with "
                        "other names, and jobs of several processes do not find them; rename the folder",
                        core::shown(one.string())));
  }

  /// Returns the value of the key `deepspeed_config` if it is a mapping, and removes the key from `root`; else returns
  /// null.
  static node_ptr take_inside(node_ptr& root) {
    node rest = *root;
    const auto at = std::ranges::find(rest.entries, "deepspeed_config", &entry::name);
    if (at == rest.entries.end() || at->value->kind != node_kind::mapping) return nullptr;
    node_ptr inside = at->value;
    rest.entries.erase(at);
    root = std::make_shared<const node>(std::move(rest));
    return inside;
  }

  /// Adds the keys of the mapping `inside`, the value of `deepspeed_config`, and of the file that the mapping names.
  /// Keys next to `deepspeed_config` take precedence over the mapping, and the mapping over that file.
  void import_inside(settings& all, const node& inside) {
    put_under(all, collect(*accelerate_section(inside), report_, why_));
    if (const node_ptr file = accelerate_file_named(inside)) import_file(all, *file);
  }

  /// True if the value of a `--set` is the literal text: the key holds one text, and YAML would read something else,
  /// such as `cluster.listen=[::1]:4472`.
  static bool takes_as_written(std::string_view key, std::string_view text, const document& read) {
    const key_info* row = nullptr;
    for (std::string_view rest = key; !rest.empty();) {
      const size_t dot = std::min(rest.find('.'), rest.size());
      row = key_in(row == nullptr ? std::string_view() : std::string_view(row->key), rest.substr(0, dot));
      if (row == nullptr) return false;
      rest.remove_prefix(std::min(dot + 1, rest.size()));
    }
    if (row->type == value_type::texts) return read.root == nullptr;
    if (row->type != value_type::text && row->type != value_type::path) return false;
    if (text.starts_with('"') || text.starts_with('\'')) return false;
    return read.root == nullptr || !read.problems.empty() ||
           (read.root->kind != node_kind::null && read.root->text != text);
  }

  std::optional<settings> read_override(const std::string& text) {
    const auto number = static_cast<uint32_t>(report_.sources.size());
    report_.sources.push_back({"--set " + core::shown(text, 200), current_folder(), source::override_text});
    if (!core::is_utf8(text)) {
      report_.error({number, 0, 0}, "", "wanted UTF-8 text, got another encoding");
      return std::nullopt;
    }
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      report_.error({number, 0, 0}, "", "wanted KEY=VALUE, as in --set steps=100");
      return std::nullopt;
    }
    std::string_view value_text = std::string_view(text).substr(equals + 1);
    while (value_text.starts_with(' ') || value_text.starts_with('\t')) value_text.remove_prefix(1);
    while (value_text.ends_with(' ') || value_text.ends_with('\t')) value_text.remove_suffix(1);
    std::string key = text.substr(0, equals);
    node_ptr value = make_scalar(node_kind::null, "", {number, 1, 1});
    if (!value_text.empty()) {
      const document read = read_yaml(value_text, number);
      if (takes_as_written(key, value_text, read)) {
        value = make_scalar(node_kind::quoted, std::string(value_text), {number, 1, 1});
      } else {
        for (const problem& p : read.problems) report_.error(p.at, p.key, p.text);
        if (read.root == nullptr) return std::nullopt;
        value = read.root;
      }
    }
    while (!key.empty()) {
      const size_t dot = key.rfind('.');
      const std::string last = dot == std::string::npos ? key : key.substr(dot + 1);
      value = make_mapping(last, {number, 1, 1}, value);
      key = dot == std::string::npos ? "" : key.substr(0, dot);
      if (value->height > deepest_nesting) {
        report_.error({number, 0, 0}, "", fmt::format("wanted at most {} levels of nesting", deepest_nesting));
        return std::nullopt;
      }
    }
    settings read = collect(*value, report_, why_);
    for (auto& [name, s] : read.given) s.in_part = text.starts_with(name + ".");
    return read;
  }

  /// Adds the keys of a file that `deepspeed_config` or `deepspeed_config_file` names. The keys of `all`, and those of
  /// `--set` texts, take precedence over them.
  void import_file(settings& all, const node& named) {
    const place at = named.at;
    const auto path = expanded_path(named.text, report_.sources[at.source].folder);
    if (!path) return report_.error(at, "deepspeed_config", path.error());
    const fs::path file = (report_.sources[at.source].folder / *path).lexically_normal();
    const auto text = read_text(file);
    if (!text) {
      report_.error(at, "deepspeed_config", fmt::format("{}: {}", file.string(), text.error()));
      return;
    }
    const auto number = static_cast<uint32_t>(report_.sources.size());
    const source& from = report_.sources[at.source];
    const fs::path told = from.kind == source::override_text ? file : fs::path(from.name).parent_path() / named.text;
    report_.sources.push_back({told.lexically_normal().string(), file.parent_path(), source::imported});
    node_ptr root = read_root(*text, number);
    if (root == nullptr) return;
    const bool is_accelerate = is_accelerate_file(*root);
    if (is_accelerate && imports_accelerate_) {
      report_.error(at, "deepspeed_config_file", "wanted a DeepSpeed configuration file, got one of Accelerate");
      return;
    }
    imports_accelerate_ = is_accelerate;
    if (is_accelerate) root = accelerate_root(*root, report_);
    const node_ptr inside = take_inside(root);
    bool imports = refuse_import(root->find("deepspeed_config"));
    if (inside != nullptr) imports = refuse_import(inside->find("deepspeed_config")) || imports;
    if (inside != nullptr && !is_accelerate) imports = refuse_import(accelerate_file_named(*inside).get()) || imports;
    if (imports) return;
    settings below = collect(*root, report_, why_);
    if (inside != nullptr) import_inside(below, *inside);
    put_under(all, std::move(below));
  }

  /// Reports an error for `named`, the file or mapping that an imported file would import; returns false if it is null.
  bool refuse_import(const node* named) {
    if (named == nullptr) return false;
    report_.error(named->at, "deepspeed_config", "an imported file cannot import another");
    return true;
  }

  void put_under(settings& all, settings below) {
    const place root = all.root;
    below.override_with(std::move(all), report_);
    all = std::move(below);
    all.root = root;
  }

  /// A job for one choice of its degrees, with all values and diagnostics after the rules between keys were applied.
  struct attempt {
    settings given;
    job_config config;
    reporter report;
    origins derived;
  };

  load_result finish(const settings& all, const std::string& name, const fs::path& file) {
    job_config c;
    c.file = file;
    for (const key_info& row : key_table())
      if (const auto it = all.given.find(row.key); it != all.given.end()) keep(it->second, c);
    for (const auto& [list, size] : all.lists) key_named(list + "[]")->target.resize(c, size);
    for (const auto& [key, s] : all.given)
      if (s.row->in_list()) keep(s, c);
    if (c.model.path.empty()) c.model.hugging_face_json = model_as_json(all);
    settings given = all;
    if (options_.steps) steps_from_option(given, c);
    open_degrees open;
    if (why_ != purpose::deepspeed) open = find_open(given, c, report_);
    if (open.ways.size() < 2) {
      if (!open.ways.empty()) given = with_way(std::move(given), open, 0);
      return accept(resolved(std::move(given), std::move(c), open, 0, name));
    }
    return accept_open(given, c, open, name);
  }

  /// Applies all rules to a job. If the job's degrees are open, sets them to the degrees of division `way` in `open`.
  attempt resolved(settings given, job_config config, const open_degrees& open, size_t way, const std::string& name) {
    attempt a{std::move(given), std::move(config), report_, {}};
    for (size_t k = 0; k < open.keys.size() && !open.ways.empty(); ++k)
      a.config.parallel.*(open.keys[k]->degree) = open.ways[way][k];
    resolve(a.given, a.config, a.report, a.derived, why_);
    if (a.config.output.empty() && why_ != purpose::deepspeed) {
      a.config.output = current_folder() / "runs" / fs::path(name).stem();
      a.derived.emplace("output", "derived");
    }
    ask_others(a);
    return a;
  }

  load_result accept(attempt a) {
    if (a.report.failed()) return tl::unexpected(a.report.in_order(diagnostic::error));
    loaded out;
    out.config = std::move(a.config);
    out.deepspeed_only = why_ == purpose::deepspeed;
    out.warnings = a.report.in_order(diagnostic::warning);
    describe(a.given, a.derived, report_.sources, out);
    return out;
  }

  /// Accepts a job with open degrees. Every possible division of the ranks (*way*) is checked like a file of its own:
  /// errors common to all ways are errors of the file; a way with further errors cannot be chosen.
  load_result accept_open(const settings& given, const job_config& c, const open_degrees& open,
                          const std::string& name) {
    std::vector<degree_choice> choices;
    std::vector<diagnostic> errors, warnings;
    std::optional<attempt> first;
    for (size_t way = 0; way < open.ways.size(); ++way) {
      attempt a = resolved(with_way(given, open, way), c, open, way, name);
      auto& choice = choices.emplace_back();
      choice = {a.config.parallel,
                a.config.train_batch_size,
                a.config.train_micro_batch_size_per_gpu,
                a.config.gradient_accumulation_steps,
                {}};
      auto wrong = a.report.in_order(diagnostic::error), told = a.report.in_order(diagnostic::warning);
      if (!wrong.empty()) choice.refusal = wrong.front().key + ": " + wrong.front().text;
      keep_common(errors, std::move(wrong), way == 0);
      if (a.report.failed()) continue;
      keep_common(warnings, std::move(told), !first);
      if (!first) first = std::move(a);
    }
    if (!errors.empty()) return tl::unexpected(std::move(errors));
    if (!first) {
      report_.error(given.where("parallel.ranks"), "parallel.ranks", none_suits(*c.parallel.all, choices));
      return give_up();
    }
    loaded out;
    out.config = std::move(first->config);
    out.config.open_degrees = std::move(choices);
    out.warnings = std::move(warnings);
    describe(given, first->derived, report_.sources, out);
    mark_open(open, out);
    return out;
  }

  static void keep_common(std::vector<diagnostic>& common, std::vector<diagnostic> found, bool is_first) {
    if (is_first) {
      common = std::move(found);
      return;
    }
    std::erase_if(common, [&](const diagnostic& d) { return std::ranges::find(found, d) == found.end(); });
  }

  static std::string none_suits(uint64_t ranks, const std::vector<degree_choice>& choices) {
    constexpr size_t told_max = 4;
    std::string out = fmt::format(
        "{} ranks cannot be shared out by auto, because every combination of degrees is refused; change parallel.ranks "
        "or the keys named here",
        ranks);
    for (size_t i = 0; i < std::min(told_max, choices.size()); ++i)
      out += fmt::format("; {}: {}", degrees_text(choices[i].parallel), choices[i].refusal);
    if (choices.size() > told_max) out += fmt::format("; and {} more combinations", choices.size() - told_max);
    return out;
  }

  /// Adds the errors and warnings that the caller's check `options_.also` returns, each at the position of its key.
  void ask_others(attempt& a) {
    const settings& given = a.given;
    const bool has_model = given.value_of("model.path") != nullptr || given.value_of("model.model_type") != nullptr;
    const auto in_model = [](const std::string& key) { return key == "model" || key.starts_with("model."); };
    if (!options_.also || why_ != purpose::job || !has_model || std::ranges::any_of(given.refused, in_model)) return;
    for (key_problem& p : options_.also(a.config, a.report.failed() ? so_far::refused : so_far::sound)) {
      const place at = given.where(p.key);
      p.is_warning ? a.report.warn(at, std::move(p.key), std::move(p.text))
                   : a.report.error(at, std::move(p.key), std::move(p.text));
    }
  }

  /// Stores a value in its field of `c`; a value that is `auto` or cannot be honoured yet is not stored.
  void keep(const setting& s, job_config& c) {
    if (s.value == nullptr || s.held_back) return;
    if (const auto refused = store(*s.row, *s.value, report_.sources[s.at.source].folder, c, s.item))
      report_.error(s.at, s.key, fmt::format("wanted {}, got {}", *refused, shown(*s.value)));
    if (s.row->target.told != nullptr) *s.row->target.told(c) = true;
  }

  void steps_from_option(settings& given, job_config& c) {
    const auto number = static_cast<uint32_t>(report_.sources.size());
    report_.sources.push_back({"--steps", {}, source::override_text});
    const key_info* row = key_named("steps");
    const node_ptr value = make_scalar(node_kind::plain, fmt::to_string(*options_.steps), {number, 0, 0});
    given.refused.erase("steps");
    if (checked(*row, value) == nullptr) {
      report_.error({number, 0, 0}, "steps", fmt::format("wanted {}, got {}", wanted(*row), *options_.steps));
      given.refused.insert("steps");
      return;
    }
    given.given["steps"] = {row, row->key, value, false, {number, 0, 0}, {number, 0, 0}};
    c.steps = *options_.steps;
  }

  const load_options& options_;
  reporter report_;
  purpose why_ = purpose::job;
  bool imports_accelerate_ = false;  ///< true: the latest file that was read or imported is in the format of Accelerate
};

}  // namespace

load_result load(const fs::path& file, const load_options& options) {
  const auto text = read_text(file);
  std::error_code unknown;
  if (!text && !fs::exists(file, unknown))
    if (const auto decoded = json_in_base64(file.string()))
      return loading(options).run(*decoded, "base64 text", current_folder(), {});
  if (!text) return loading(options).refuse_file(file.string(), text.error());
  std::error_code ignored;
  const fs::path absolute = fs::absolute(file, ignored).lexically_normal();
  return loading(options).run(*text, file.string(), absolute.parent_path(), absolute);
}

load_result load_text(std::string_view text, const std::string& name, const fs::path& base_folder,
                      const load_options& options) {
  std::error_code ignored;
  return loading(options).run(text, name, fs::absolute(base_folder, ignored), {});
}

load_result load_tree(const document& tree, const std::string& name, const fs::path& base_folder,
                      const load_options& options) {
  return loading(options).run_tree(tree, name, base_folder);
}

}  // namespace troupe::config
