// Tests `troupe compress` with a calibration text: GGUF files, methods that compute with the model, losses, and a
// process that is killed.
#include <fmt/format.h>

#include <csignal>

#include "tests/apps/topology.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(compress_methods)

using namespace troupe;
using namespace troupe::tests;
namespace fs = std::filesystem;

namespace {

/// Returns the folder of a run of a few steps, whose validation data were the last tenth of the text.
const command_folder& trained() {
  static const command_folder f([] {
    auto yaml = replaced(smallest, "data: {text: corpus.txt}", "data: {text: corpus.txt, validation_fraction: 0.1}");
    return replaced(yaml, "output: out\n", "output: run\ncheckpoint: {every_steps: 6}\ntelemetry: {trace: false}\n");
  }());
  static const bool once = [] {
    check_exit(0, f.troupe({"train", "job.yaml", "--quiet"}));
    f.folder.write("calibration.txt", made_up_text(60000));
    return true;
  }();
  BOOST_TEST_REQUIRE(once);
  return f;
}

std::string file(const std::string& name) { return scratch_folder::read(trained().folder / name); }

void check_refused(std::vector<std::string> options, const std::string& part, int code = 2) {
  const auto& f = trained();
  options.insert(options.begin(), {"compress", "run", "refused"});
  const auto r = f.troupe(options);
  BOOST_TEST(r.code == code, r.err);
  BOOST_TEST(has(r.err, part), "no '" << part << "' in: " << r.err);
  BOOST_TEST(sentences_of(r.err) == 1U, r.err);
  for (const char* left : {"refused", ".refused.part", ".refused.work"}) BOOST_TEST(!fs::exists(f.folder / left), left);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_gguf_file_rounded_to_nearest_is_that_of_to_gguf_with_a_table_and_how_it_is_opened) {
  const auto& f = trained();
  for (const std::string type : {"q4_0", "q8_0", "q4_k_m", "bf16"}) {
    BOOST_TEST_INFO_SCOPE(type);
    const auto r =
        check_exit(0, f.troupe({"compress", "run", "a.gguf", "--to", "gguf:" + type, "--validate", "none", "--force"}));
    BOOST_TEST(has(r.out, "layer  "), r.out);
    BOOST_TEST(has(r.out, "llama-cli -m \"a.gguf\" opens it\n"), r.out);
    BOOST_TEST(has(r.out, " bits a weight)\n"), r.out);
    BOOST_TEST(!has(r.out, "validation"), r.out);
    BOOST_TEST_REQUIRE(f.troupe({"checkpoint", "to-gguf", "run", "b.gguf", "--type", type, "--force"}).code == 0);
    BOOST_TEST((file("a.gguf") == file("b.gguf")), type);
  }
}

BOOST_AUTO_TEST_CASE(the_loss_is_over_what_the_run_held_out_and_little_is_lost_in_eight_bits) {
  const auto& f = trained();
  const auto r = check_exit(0, f.troupe({"compress", "run", "loss.gguf", "--to", "gguf:q8_0"}));
  BOOST_TEST(has(r.out, "validation: what its run held out, "), r.out);
  const auto at = r.out.find("validation loss ");
  BOOST_TEST_REQUIRE(at != std::string::npos, r.out);
  const std::string figures = r.out.substr(at + 16);
  const double before = std::stod(figures), after = std::stod(figures.substr(figures.find("-> ") + 3));
  BOOST_TEST((before > 1 && before < 6), figures);
  BOOST_TEST(std::abs(after - before) < 0.01, figures);
  BOOST_TEST(figures.ends_with(" nats/byte\n"), figures);
  BOOST_TEST(!fs::exists(f.folder / ".loss.gguf.work"));
}

BOOST_AUTO_TEST_CASE(a_gguf_file_of_bytes_reads_a_text_as_bytes) {
  const auto& f = trained();
  BOOST_TEST_REQUIRE(f.troupe({"compress", "run", "bytes.gguf", "--to", "gguf:f32", "--validate", "none"}).code == 0);
  const auto r = check_exit(
      0, f.troupe({"compress", "bytes.gguf", "fewer.gguf", "--to", "gguf:q8_0", "--validate", "calibration.txt"}));
  BOOST_TEST(has(r.out, " nats/byte\n"), r.out);
}

BOOST_AUTO_TEST_CASE(a_loss_over_a_text_that_has_changed_says_so) {
  const command_folder f([] {
    auto yaml = replaced(smallest, "data: {text: corpus.txt}", "data: {text: corpus.txt, validation_fraction: 0.1}");
    return replaced(yaml, "output: out\n", "output: run\ncheckpoint: {every_steps: 6}\n");
  }());
  BOOST_TEST_REQUIRE(f.troupe({"train", "job.yaml", "--quiet"}).code == 0);
  f.folder.write("corpus.txt", scratch_folder::read(f.folder / "corpus.txt") + made_up_text(500));
  const auto changed = check_exit(0, f.troupe({"compress", "run", "b.gguf", "--to", "gguf:q8_0"}));
  BOOST_TEST(has(changed.out, " tokens, of a text that has "), changed.out);
}

BOOST_AUTO_TEST_CASE(documents_that_training_kept_apart_stay_apart_in_losses_and_calibration) {
  command_folder f([] {
    auto yaml = replaced(smallest, "data: {text: corpus.txt}",
                         "data: {text: docs, validation_fraction: 0.1, document_mask: true}");
    yaml = replaced(replaced(yaml, "steps: 6", "steps: 80"), "lr: 1.0e-3", "lr: 3.0e-3");
    return replaced(yaml, "output: out\n", "output: run\ncheckpoint: {every_steps: 40}\ntelemetry: {trace: false}\n");
  }());
  // A text of these documents is foretold within a document alone, so the loss depends on the mask.
  for (int i = 0; i < 240; ++i) {
    std::string text;
    const int steps[] = {1, 3, 5};
    for (int k = 0; k < 30 + i * 37 % 60; ++k)
      text += static_cast<char>('a' + (i * i * 7 + i * 11 + steps[i % 3] * k) % 26);
    f.folder.write(fmt::format("docs/{}.txt", 1000 + i), text);
  }
  const auto trained_here = check_exit(0, f.troupe({"train", "job.yaml", "--json"}));
  const std::string key = "\"validation_loss\":";
  const double in_training = std::stod(trained_here.out.substr(trained_here.out.rfind(key) + key.size()));
  const auto loss_of = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"compress", "run", "a.gguf", "--to", "gguf:q8_0", "--force"});
    const auto r = check_exit(0, f.troupe(options));
    BOOST_TEST(has(r.out, " tokens, with the run's data.document_mask\n"), r.out);
    return std::stod(r.out.substr(r.out.find("validation loss ") + 16));
  };
  BOOST_TEST(std::abs(loss_of({}) - in_training) < 2e-4);
  // A plain folder of weights has no run, so nothing is masked.
  BOOST_TEST_REQUIRE(f.troupe({"checkpoint", "to-hf", "run", "hf"}).code == 0);
  const auto plain = check_exit(
      0, f.troupe({"compress", "hf", "b.gguf", "--to", "gguf:q8_0", "--tokenizer", "bytes", "--validate", "docs"}));
  const double unmasked = std::stod(plain.out.substr(plain.out.find("validation loss ") + 16));
  BOOST_TEST(loss_of({"--validate", "docs"}) < 0.97 * unmasked);

  BOOST_TEST(f.troupe({"compress", "run", "c.gguf", "--to", "gguf:q4_0", "--method", "gptq", "--calibrate", "docs",
                       "--samples", "16", "--validate", "none"})
                 .code == 0);
  f.folder.write("bare.bin", made_up_text(20000));  // tokens of 16 bits
  const auto refused =
      f.troupe({"compress", "run", "d.gguf", "--to", "gguf:q4_0", "--method", "gptq", "--calibrate", "bare.bin"});
  BOOST_TEST(refused.code == 2, refused.out);
  BOOST_TEST(has(refused.err, "bare.bin': where its documents begin is unknown, which data.document_mask requires"),
             refused.err);
}

BOOST_AUTO_TEST_CASE(every_method_writes_files_that_are_read_back_and_gptq_has_the_same_bits_each_time) {
  const auto& f = trained();
  const auto compress = [&](const std::string& out, const std::string& to, const std::string& method) {
    check_exit(0, f.troupe({"compress", "run", out, "--to", to, "--method", method, "--calibrate", "calibration.txt",
                            "--samples", "16", "--force", "--validate", "none"}));
  };
  compress("rtn.gguf", "gguf:q4_k", "rtn");
  compress("awq.gguf", "gguf:q4_0", "awq");
  compress("gptq.gguf", "gguf:q4_0", "gptq");
  compress("again.gguf", "gguf:q4_0", "gptq");
  BOOST_TEST((file("gptq.gguf") == file("again.gguf")));
  BOOST_TEST_REQUIRE(f.troupe({"compress", "run", "plain.gguf", "--to", "gguf:q4_0", "--validate", "none"}).code == 0);
  BOOST_TEST((file("gptq.gguf") != file("plain.gguf")));
  BOOST_TEST((file("gptq.gguf").size() == file("plain.gguf").size()));
  for (const char* name : {"rtn.gguf", "awq.gguf", "gptq.gguf"})
    BOOST_TEST(f.troupe({"checkpoint", "verify", name, "--quiet"}).code == 0, name);
}

BOOST_AUTO_TEST_CASE(a_process_that_is_killed_continues_at_its_segment_with_the_same_bits) {
  const auto& f = trained();
  const std::vector<std::string> command{troupe::places::troupe_binary,
                                         "compress",
                                         "run",
                                         "killed.gguf",
                                         "--to",
                                         "gguf:q4_0",
                                         "--method",
                                         "gptq",
                                         "--calibrate",
                                         "calibration.txt",
                                         "--samples",
                                         "900",
                                         "--sequence",
                                         "64",
                                         "--validate",
                                         "none"};
  auto whole = command;
  whole[3] = "whole.gguf";
  BOOST_TEST_REQUIRE(run(whole, f.folder.path()).code == 0);
  // If the command is done before it can be killed, the test tries again.
  for (int tries = 0; tries < 10 && !fs::exists(f.folder / ".killed.gguf.work/journal.json"); ++tries) {
    fs::remove(f.folder / "killed.gguf");
    process p(command, f.folder.path());
    while (!fs::exists(f.folder / ".killed.gguf.work/journal.json") && p.wait_for_work(std::chrono::milliseconds(10))) {
    }
    p.send(SIGKILL);
    (void)p.end();
  }
  BOOST_TEST(!fs::exists(f.folder / "killed.gguf"));
  // If the stored hidden states were changed meanwhile, the command would compute other weights.
  const auto work = f.folder / ".killed.gguf.work";
  fs::copy(work, f.folder / "kept", fs::copy_options::recursive);
  for (const char* name : {"windows-0.bin", "windows-1.bin"}) {
    auto bytes = scratch_folder::read(work / name);
    if (bytes.empty()) continue;
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    f.folder.write(std::string(".killed.gguf.work/") + name, bytes);
  }
  const auto changed = check_exit(2, run(command, f.folder.path()));
  BOOST_TEST(has(changed.err, "do not have their digest: they were changed since they were written"), changed.err);
  fs::remove_all(work);
  fs::rename(f.folder / "kept", work);
  const auto r = check_exit(0, run(command, f.folder.path()));
  BOOST_TEST(has(r.err, "continues after step "), r.err);
  BOOST_TEST((file("killed.gguf") == file("whole.gguf")));
  BOOST_TEST(!fs::exists(f.folder / ".killed.gguf.work"));
}

BOOST_AUTO_TEST_CASE(what_cannot_be_done_is_one_sentence_and_leaves_nothing) {
  check_refused({"--to", "gguf:q4_0", "--method", "gptq"}, "--method gptq needs a text for calibration");
  check_refused({"--to", "gguf:q4_0", "--method", "best"}, "wanted rtn, gptq, awq or smoothquant, got 'best'");
  check_refused({"--to", "gguf:q4_k", "--method", "gptq", "--calibrate", "calibration.txt"},
                "--method gptq needs a format of integer codes");
  check_refused({"--to", "gguf:q4_0", "--method", "smoothquant", "--calibrate", "calibration.txt"},
                "--method smoothquant is only for compressed-tensors:w8a8");
  check_refused({"--to", "gguf:q9"}, "wanted one of f32, f16");
  check_refused({"--to", "onnx"}, "--to: wanted compressed-tensors:FORMAT or gguf:TYPE, got 'onnx'");
  check_refused({"--to", "gguf:q4_0", "--group", "32"}, "--group is only for compressed-tensors:FORMAT");
  check_refused({"--to", "gguf:q4_0", "--embeddings", "q4_k_m"}, "--embeddings: wanted a type of ");
  check_refused({"--to", "gguf:q4_0", "--method", "gptq", "--calibrate", "nowhere.txt"}, "nowhere.txt");
  check_refused({"--to", "gguf:q4_0", "--method", "gptq", "--calibrate", "calibration.txt", "--samples", "9999"},
                "--calibrate: 9999 windows of 64 tokens need 65 tokens each, 'calibration.txt' has 60000");
  const size_t held_out = file("corpus.txt").size() / 10;
  check_refused({"--to", "gguf:q4_0", "--method", "gptq", "--calibrate", "corpus.txt", "--samples", "9999"},
                fmt::format("need 65 tokens each before the part that is held out for the loss, 'corpus.txt' has {}:",
                            file("corpus.txt").size() - held_out));
  // The number of windows is 2^64 / 65 + 1: its product with 65 overflows to a small number.
  check_refused(
      {"--to", "gguf:q4_0", "--method", "gptq", "--calibrate", "calibration.txt", "--samples", "283796062672454641"},
      "--calibrate: 283796062672454641 windows of 64 tokens need 65 tokens each");
  check_refused({"--to", "gguf:q4_0", "--calibrate", "calibration.txt", "--sequence", "65", "--samples", "2"},
                "--sequence: the model reads 1 to 64 tokens, got 65");
  check_refused({"--to", "gguf:q4_0", "--method", "gptq", "--calibrate", "calibration.txt", "--samples", "2",
                 "--host-memory", "1MB"},
                "--host-memory: one unit of the model at a time needs ");
  trained().folder.write("short.txt", "too short");
  check_refused({"--to", "gguf:q4_0", "--validate", "short.txt"},
                "--validate: a window needs 65 tokens, 'short.txt' has 9");
}

BOOST_AUTO_TEST_SUITE_END()
