// Tests the JSON Schema of job files against the reader's rules for single keys: a third-party validator from the
// Python environment of the peer tests must accept every example, every random file, and, for all keys with all kinds
// of values, exactly the values that the reader accepts.
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "config/explain.hpp"
#include "config/rules/settings.hpp"
#include "config/schema.hpp"
#include "tests/config/random_job.hpp"
#include "tests/places.hpp"
#include "tests/scratch_folder.hpp"
#include "tests/skipped.hpp"

BOOST_AUTO_TEST_SUITE(schema)

using namespace troupe::config;
using troupe::tests::scratch_folder;

namespace {

using nlohmann::ordered_json;

const std::string peers = std::string(troupe::places::source_dir) + "/.peer/bin/";

bool has_validator() {
  if (std::filesystem::exists(peers + "check-jsonschema")) return true;
  troupe::tests::say_skipped("schema of editors", "`make peer` brings check-jsonschema");
  return false;
}

/// Returns the standard output and exit code of a shell command, including the error output if it fails.
std::pair<std::string, int> shell(const std::string& command) {
  FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
  BOOST_TEST_REQUIRE(pipe != nullptr);
  std::string out;
  for (char piece[4096]; const size_t n = std::fread(piece, 1, sizeof piece, pipe);) out.append(piece, n);
  return {out, ::pclose(pipe)};
}

/// Returns a list item with the key `name` set to `value`, and all keys that the item requires.
std::string item_with(const key_info& row, const std::string& name, const std::string& value) {
  std::string out = fmt::format("{}: {}", ordered_json(name).dump(), value);
  for (const key_info& other : key_table())
    if (other.required && other.section() == row.section() && other.key != row.key)
      out += fmt::format(", \"{}\": {}", other.name(),
                         other.type == value_type::integer ? "1"
                         : other.type == value_type::texts ? "[]"
                                                           : "\"a\"");
  return "{" + out + "}";
}

/// Returns a document in which `key` has `value`, nested in its sections; a wildcard in the key is replaced by the name
/// `a`.
std::string document_with(std::string key, std::string value) {
  while (!key.empty()) {
    const size_t dot = key.rfind('.');
    std::string name = dot == std::string::npos ? key : key.substr(dot + 1);
    key = dot == std::string::npos ? "" : key.substr(0, dot);
    const bool is_list = name.ends_with("[]");
    if (is_list) name.resize(name.size() - 2);
    if (name == "*") name = "a";
    value = fmt::format("{{{}: {}}}", ordered_json(name).dump(), is_list ? "[" + value + "]" : value);
  }
  return value;
}

/// Returns values of every kind, and values near the limits of the key.
std::vector<std::string> values_for(const key_info& row) {
  std::vector<std::string> out = {"true",
                                  "false",
                                  "null",
                                  "\"auto\"",
                                  "0",
                                  "1",
                                  "-1",
                                  "1.5",
                                  "5e8",
                                  "1e30",
                                  "\"\"",
                                  "\"some text\"",
                                  "\"5\"",
                                  "\"yes\"",
                                  "\"true\"",
                                  "\"0.5\"",
                                  "[]",
                                  "[1]",
                                  "[0.5, 0.25]",
                                  "[\"a\"]",
                                  "[true]",
                                  "[1.5]",
                                  "[1, 2, 3]",
                                  "{}",
                                  "\"fp16\"",
                                  "\"float\"",
                                  "\"FP16\"",
                                  "\"nvme\"",
                                  "[[1]]",
                                  "\"5 apples\"",
                                  "18446744073709551616"};
  if (row.type != value_type::object && row.name() != "*") out.push_back("{\"no such key\": 1}");
  for (const auto* names : {&row.choices.names, &row.choices.later, &row.support.only})
    for (const std::string_view name : *names) {
      out.push_back(ordered_json(name).dump());
      out.push_back(ordered_json(fmt::format("{}x", name)).dump());
      std::string upper(name);
      for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
      out.push_back(ordered_json(upper).dump());
    }
  for (const auto& limit : {row.range.least, row.range.most})
    if (limit)
      for (const double more : {-1.0, 0.0, 1.0}) out.push_back(fmt::format("{}", *limit + more));
  return out;
}

/// Returns true if the reader accepts a document, not counting rules that connect keys.
bool reads(const std::string& document, schema_of whose) {
  reporter report;
  const bool own = whose == schema_of::job;
  report.sources.push_back({own ? "j.yaml" : "j.json", {}, own ? source::job : source::imported});
  const auto read = own ? read_yaml(document, 0) : read_json(document, 0);
  BOOST_TEST_REQUIRE(read.root != nullptr, document);
  (void)collect(*read.root, report, own ? purpose::job : purpose::deepspeed);
  return read.problems.empty() && !report.failed();
}

/// Returns true for values that JSON Schema cannot check: equal items of a list, a number in a text, and integers that
/// are read as texts because they exceed every integer type.
bool is_beyond_schemas(const key_info& row, const std::string& value, schema_of whose) {
  if (row.per_group && (value == "[0.5, 0.25]" || value == "[1, 2, 3]")) return true;
  if (row.choices.or_number && (value == "1e30" || value == "18446744073709551616")) return true;
  return whose == schema_of::deepspeed && (row.range.least || row.range.most) && value.starts_with("\"") &&
         value.find_first_not_of("\".0123456789") == std::string::npos;
}

void agrees(schema_of whose) {
  const scratch_folder folder;
  std::vector<std::string> documents;
  for (const key_info& row : key_table())
    for (const std::string& value : values_for(row)) {
      // The value of this key replaces the whole file before the reader looks at other keys.
      if (row.key == "deepspeed_config" && value.starts_with('{')) continue;
      if (is_beyond_schemas(row, value, whose)) continue;
      std::vector<std::string> names = {std::string(row.name().substr(0, row.name().find('[')))};
      for (const alias& a : row.aliases) names.emplace_back(a.name);
      for (const std::string& name : names)
        documents.push_back(
            row.in_list()
                ? document_with(std::string(row.section()), item_with(row, name, value))
                : document_with(fmt::format("{}{}{}", row.section(), row.section().empty() ? "" : ".", name), value));
    }
  std::string lines;
  for (const std::string& one : documents) lines += one + "\n";
  folder.write("schema.json", schema_json(whose));
  folder.write("lines", lines);
  const auto [verdicts, code] =
      shell(fmt::format("{}python {}/tests/config/validate_lines.py {} {}", peers, troupe::places::source_dir,
                        (folder / "schema.json").string(), (folder / "lines").string()));
  BOOST_TEST_REQUIRE(code == 0, verdicts.substr(0, 2000));
  std::istringstream in(verdicts);
  size_t wrong = 0, taken = 0;
  for (const std::string& one : documents) {
    bool valid = false;
    in >> valid;
    const bool good = reads(one, whose);
    taken += good ? 1 : 0;
    if (good == valid) continue;
    if (++wrong < 40)
      BOOST_TEST(good == valid,
                 one << (good ? ": read, and refused by the schema" : ": refused, and taken by the schema"));
  }
  BOOST_TEST(wrong == 0U);
  BOOST_TEST(taken > 3000U);
  BOOST_TEST(documents.size() > taken + 3000);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_validator_takes_what_reading_takes_of_every_key_and_no_more) {
  if (!has_validator()) return;
  agrees(schema_of::job);
  agrees(schema_of::deepspeed);
}

BOOST_AUTO_TEST_CASE(a_validator_takes_every_example_and_files_that_are_drawn) {
  if (!has_validator()) return;
  const scratch_folder folder;
  folder.write("schema.json", schema_json(schema_of::job));
  std::string files;
  for (const char* place : {"/examples", "/examples/embedding"})
    for (const auto& entry : std::filesystem::directory_iterator(std::string(troupe::places::source_dir) + place))
      if (entry.path().extension() == ".yaml") files += " " + entry.path().string();
  constexpr size_t drawn = 200;
  std::mt19937_64 random(22);
  for (size_t i = 0; i < drawn; ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    const random_job job = some_job(random);
    const auto read = load_text(job.text, "j.yaml", "/base", {.overrides = job.overrides});
    BOOST_TEST_REQUIRE(read.has_value(), (read ? "" : render(read.error())));
    // The validator checks both the effective text of the file and the keys as they were given.
    std::string given;
    for (const std::string& one : job.overrides) {
      const size_t equals = one.find('=');
      given = document_with(one.substr(0, equals), one.substr(equals + 1));
      const std::string name = fmt::format("given-{}-{}.yaml", i, &one - job.overrides.data());
      if (i % 20 == 0) {
        folder.write(name, given);
        files += " " + (folder / name).string();
      }
    }
    folder.write(fmt::format("drawn-{}.yaml", i), effective_yaml(*read));
    files += " " + (folder / fmt::format("drawn-{}.yaml", i)).string();
  }
  const auto [said, code] =
      shell(fmt::format("{}check-jsonschema --schemafile {}{}", peers, (folder / "schema.json").string(), files));
  BOOST_TEST(code == 0, said.substr(0, 4000));
}

BOOST_AUTO_TEST_CASE(the_schema_beside_the_examples_is_current_and_they_name_it) {
  const std::string place = std::string(troupe::places::source_dir) + "/examples/";
  for (const auto& entry : std::filesystem::directory_iterator(place)) {
    if (entry.path().extension() != ".yaml") continue;
    std::string line;
    std::getline(std::ifstream(entry.path()) >> std::ws, line);
    BOOST_TEST(line == "# yaml-language-server: $schema=troupe.schema.json", entry.path());
  }
  if (std::getenv("TROUPE_WRITE_DOCS") != nullptr)
    std::ofstream(place + "troupe.schema.json", std::ios::binary) << schema_json(schema_of::job);
  BOOST_TEST((scratch_folder::read(place + "troupe.schema.json") == schema_json(schema_of::job)),
             "examples/troupe.schema.json is not what the table says: run this test with TROUPE_WRITE_DOCS=1");
}

BOOST_AUTO_TEST_SUITE_END()
