// Tests runs in MLflow's file store: the bytes of their files, experiments that exist, resumed runs. The test with
// MLflow's own reader is in tests/peer/mlflow_reads_ours.py.
#include "telemetry/curves/mlflow_run.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "telemetry/curves/curve_files.hpp"
#include "telemetry/curves/mlflow_text.hpp"
#include "tests/check_ok.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(mlflow_run)

using namespace troupe;
using namespace troupe::telemetry;
using tests::scratch_folder;
using troupe::tests::check_ok;
namespace fs = std::filesystem;

namespace {

mlflow_options options_in(const scratch_folder& f, const std::string& experiment = "Default") {
  return {f / "mlruns",
          experiment,
          f / "out",
          {"job", {{"optimizer.params.lr", "0.001", false}, {"data.text", "\"/a b\"", false}, {"seed", "0", true}}}};
}

/// Returns the folders of an experiment's runs, sorted.
std::vector<fs::path> runs_of(const fs::path& experiment) {
  std::vector<fs::path> out;
  for (const auto& e : fs::directory_iterator(experiment))
    if (e.is_directory()) out.push_back(e.path());
  std::ranges::sort(out);
  return out;
}

std::vector<curve_value> loss_of(double value) { return {{"Train/Samples/train_loss", value}}; }

}  // namespace

BOOST_AUTO_TEST_CASE(metadata_are_the_bytes_that_mlflow_writes) {
  BOOST_TEST(mlflow_experiment_text("0", "Default", "/runs/mlruns/0", 1796091402427) ==
             "artifact_location: file:///runs/mlruns/0\ncreation_time: 1796091402427\nexperiment_id: '0'\n"
             "last_update_time: 1796091402427\nlifecycle_stage: active\nname: Default\n");
  BOOST_TEST(mlflow_run_text({"d7b71a77aa7b41beb879786164ea9bed", "0", "r'un: 1", "me", "/a b/\xC3\xBC%", 5}) ==
             "artifact_uri: file:///a%20b/%C3%BC%25/artifacts\nend_time: null\nentry_point_name: ''\n"
             "experiment_id: '0'\nlifecycle_stage: active\nrun_id: 'd7b71a77aa7b41beb879786164ea9bed'\n"
             "run_name: 'r''un: 1'\nrun_uuid: 'd7b71a77aa7b41beb879786164ea9bed'\nsource_name: ''\nsource_type: 4\n"
             "source_version: ''\nstart_time: 5\nstatus: 1\ntags: []\nuser_id: me\n");
  BOOST_TEST(mlflow_row(1796091402557, 0.1, 8) == "1796091402557 0.1 8\n");
  BOOST_TEST(mlflow_row(5, NAN, 8) == "5 nan 8\n");
  BOOST_TEST(mlflow_row(5, -INFINITY, 8) == "5 -inf 8\n");
  BOOST_TEST((mlflow_place("1796091402557 0.1 8") == std::optional<uint64_t>(8)));
  BOOST_TEST(!mlflow_place("1796091402557 0.1 ").has_value());
}

BOOST_AUTO_TEST_CASE(texts_that_yaml_reads_as_something_else_are_in_quotes) {
  const auto name = [](const std::string& text) {
    const std::string meta = mlflow_experiment_text("1", text, "/m", 0);
    const size_t at = meta.find("\nname: ") + 7;
    return meta.substr(at, meta.size() - 1 - at);
  };
  for (const std::string plain : {"Default", "my runs", "a/b-c_d.e", "e5x", "a:b"}) BOOST_TEST(name(plain) == plain);
  for (const std::string odd :
       {"1796", "yes", "Null", "a: b", "a:", "- a", "#a", "a #b", "{a}", "1e5", ".5", "\xC3\xA9"})
    BOOST_TEST(name(odd) == "'" + odd + "'");
  BOOST_TEST(name("it's") == "'it''s'");
  BOOST_TEST(name("a\nb") == "\"a\\u000ab\"");
  for (const std::string text : {"Default", "it's", "a: b", "1796", "my runs"})
    BOOST_TEST(*mlflow_experiment_name(mlflow_experiment_text("1", text, "/m", 0)) == text);
  // PyYAML folds long texts, and MLflow's client writes more keys.
  BOOST_TEST(*mlflow_experiment_name("a: b\nname: 'it''s a\n  long name'\nworkspace: default\n") == "it's a long name");
  BOOST_TEST(*mlflow_experiment_name("name: \"a b\"\n") == "a b");
  BOOST_TEST(!mlflow_experiment_name("name: \"a\\tb\"\n").has_value());
  BOOST_TEST(!mlflow_experiment_name("names: a\n").has_value());
}

BOOST_AUTO_TEST_CASE(parameters_have_names_that_stay_in_their_folder) {
  for (const char* name : {"lr", "optimizer.params.lr", "a/b", "a_b-c"}) BOOST_TEST(is_mlflow_name(name), name);
  for (const char* name : {"", ".", "..", "../a", "a/../b", "/a", "a/", "a//b", ".part", "a b", "a\nb"})
    BOOST_TEST(!is_mlflow_name(name), name);
  BOOST_TEST(mlflow_parameter("0.001") == "0.001");
  BOOST_TEST(mlflow_parameter("\"/a b\"") == "/a b");
  BOOST_TEST(mlflow_parameter("\"a\\nb\"") == "\"a\\nb\"");
  BOOST_TEST(mlflow_parameter("a\xFF") == "a\xEF\xBF\xBD");
}

BOOST_AUTO_TEST_CASE(a_run_has_a_file_per_metric_parameter_and_tag) {
  const scratch_folder f;
  auto run = check_ok(telemetry::mlflow_run::open(options_in(f), 1.5, std::nullopt));
  const fs::path folder = run->folder();
  BOOST_TEST((folder.parent_path() == f / "mlruns/0"));
  BOOST_TEST(folder.filename().string().size() == 32U);
  BOOST_TEST(run->write(2.5, 8, loss_of(5)).has_value());
  BOOST_TEST(run->write(3.5, 16, loss_of(4.5)).has_value());
  BOOST_TEST(scratch_folder::read(folder / "metrics/Train/Samples/train_loss") == "2500 5 8\n3500 4.5 16\n");
  BOOST_TEST(scratch_folder::read(folder / "params/optimizer.params.lr") == "0.001");
  BOOST_TEST(scratch_folder::read(folder / "params/data.text") == "/a b");
  BOOST_TEST(!fs::exists(folder / "params/seed"));
  BOOST_TEST(scratch_folder::read(folder / "tags/mlflow.runName") == "job");
  BOOST_TEST(scratch_folder::read(folder / "tags/mlflow.source.type") == "LOCAL");
  BOOST_TEST(scratch_folder::read(folder / "tags/troupe.output") == "../out");
  BOOST_TEST(fs::is_directory(folder / "artifacts"));
  const std::string meta = scratch_folder::read(folder / "meta.yaml");
  BOOST_TEST(meta.find("\nend_time: null\n") != std::string::npos);
  BOOST_TEST(meta.find("\nstart_time: 1500\nstatus: 1\n") != std::string::npos);
  BOOST_TEST(run->end(4.5, verdict::done).has_value());
  const std::string ended = scratch_folder::read(folder / "meta.yaml");
  BOOST_TEST(ended.find("\nend_time: 4500\n") != std::string::npos);
  BOOST_TEST(ended.find("\nstatus: 3\n") != std::string::npos);
  BOOST_TEST(run->complete());
  for (const auto& [how, status] : {std::pair(verdict::stopped, "status: 5\n"), {verdict::failed, "status: 4\n"}})
    BOOST_TEST(mlflow_ended_text(meta, how, 1).find(status) != std::string::npos);
}

BOOST_AUTO_TEST_CASE(an_experiment_is_found_by_its_name_or_made) {
  const scratch_folder f;
  f.write("mlruns/77/meta.yaml", "creation_time: 1\nexperiment_id: '77'\nlifecycle_stage: active\nname: 'it''s'\n");
  f.write("mlruns/88/meta.yaml", std::string(100000, 'x'));  // no experiment
  auto theirs = check_ok(telemetry::mlflow_run::open(options_in(f, "it's"), 1, std::nullopt));
  BOOST_TEST((theirs->folder().parent_path() == f / "mlruns/77"));
  auto ours = check_ok(telemetry::mlflow_run::open(options_in(f, "other"), 1, std::nullopt));
  auto more = check_ok(telemetry::mlflow_run::open(options_in(f, "other"), 1, std::nullopt));
  const fs::path made = ours->folder().parent_path();
  BOOST_TEST((more->folder().parent_path() == made));
  BOOST_TEST(made.filename().string().size() == 18U);
  BOOST_TEST(*mlflow_experiment_name(scratch_folder::read(made / "meta.yaml")) == "other");
  BOOST_TEST(*mlflow_experiment_name(scratch_folder::read(f / "mlruns/0/meta.yaml")) == "Default");
  BOOST_TEST(runs_of(made).size() == 2U);
}

BOOST_AUTO_TEST_CASE(a_resumed_run_continues_its_own_run) {
  const scratch_folder f;
  fs::path folder;
  {
    auto other = options_in(f);
    other.run = f / "elsewhere";
    auto first = check_ok(telemetry::mlflow_run::open(options_in(f), 1, std::nullopt));
    auto stranger = check_ok(telemetry::mlflow_run::open(other, 2, std::nullopt));
    folder = first->folder();
    for (uint64_t step = 1; step <= 4; ++step)
      BOOST_TEST(first->write(double(step), 8 * step, loss_of(double(step))).has_value());
    const std::vector<curve_value> late = {{"Validation/Samples/loss", 1}};
    BOOST_TEST(first->write(4, 32, late).has_value());
    BOOST_TEST(first->end(5, verdict::stopped).has_value());
  }
  const fs::path loss = folder / "metrics/Train/Samples/train_loss";
  f.write(fs::relative(loss, f.path()).string(), scratch_folder::read(loss) + "5000 3");  // appends half a row
  auto again = options_in(f);
  again.about.settings = {{"optimizer.params.lr", "0.002", false}, {"data.text", "none", true}};
  auto run = check_ok(telemetry::mlflow_run::open(again, 6, 16));
  BOOST_TEST((run->folder() == folder));
  BOOST_TEST(scratch_folder::read(loss) == "1000 1 8\n2000 2 16\n");
  // A metric without values is removed, because MLflow refuses to read a run with one.
  BOOST_TEST(!fs::exists(folder / "metrics/Validation/Samples/loss"));
  BOOST_TEST(scratch_folder::read(folder / "params/optimizer.params.lr") == "0.002");
  BOOST_TEST(!fs::exists(folder / "params/data.text"));
  const std::string meta = scratch_folder::read(folder / "meta.yaml");
  BOOST_TEST(meta.find("\nend_time: null\n") != std::string::npos);
  BOOST_TEST(meta.find("\nstart_time: 1000\nstatus: 1\n") != std::string::npos);
  BOOST_TEST(run->write(7, 24, loss_of(9)).has_value());
  BOOST_TEST(run->write(8, 32, loss_of(9)).has_value());
  BOOST_TEST(run->go_back(8.5, 24).has_value());
  BOOST_TEST(run->write(9, 32, loss_of(8)).has_value());
  BOOST_TEST(scratch_folder::read(loss) == "1000 1 8\n2000 2 16\n7000 9 24\n9000 8 32\n");
  // A run that goes back to its begin is a new one.
  BOOST_TEST(run->go_back(10, 0).has_value());
  BOOST_TEST((run->folder() != folder));
  BOOST_TEST(scratch_folder::read(folder / "meta.yaml").find("status: 5\n") != std::string::npos);
  BOOST_TEST(runs_of(f / "mlruns/0").size() == 3U);
  // A run that MLflow's user has deleted is not continued.
  const fs::path deleted = run->folder() / "meta.yaml";
  std::string text = scratch_folder::read(deleted);
  text.replace(text.find("lifecycle_stage: active"), 23, "lifecycle_stage: deleted");
  f.write(fs::relative(deleted, f.path()).string(), text);
  auto last = check_ok(telemetry::mlflow_run::open(options_in(f), 11, 8));
  BOOST_TEST((last->folder() == folder));
}

BOOST_AUTO_TEST_CASE(a_store_that_cannot_be_made_is_refused_with_its_key_and_a_removed_run_is_said) {
  const scratch_folder f;
  f.write("taken", "a file");
  curve_options o;
  o.mlflow = options_in(f);
  o.mlflow->store = f / "taken/mlruns";
  const auto did = telemetry::curve_files::open(o, 0);
  BOOST_TEST_REQUIRE(!did.has_value());
  BOOST_TEST(did.error().text.starts_with("mlflow: cannot make the folder "), did.error().text);
  o.mlflow = options_in(f);
  auto files = check_ok(telemetry::curve_files::open(o, 0));
  BOOST_TEST(files->write(1, 8, loss_of(1)).has_value());
  fs::remove_all(f / "mlruns");
  BOOST_TEST(!files->write(2, 16, loss_of(1)).has_value());
  BOOST_TEST(files->has_removed_file());
  BOOST_TEST(!files->end(3, verdict::done).has_value());
  BOOST_TEST(!files->complete());
  BOOST_TEST(!fs::exists(f / "mlruns"));
}

BOOST_AUTO_TEST_SUITE_END()
