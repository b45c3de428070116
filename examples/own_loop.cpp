// A program with a training loop of its own over two sessions, which learn against each other as in a GAN: the
// discriminator learns that a text is likely and texts of the generator are not; the generator learns, by policy
// gradient, to write texts that the discriminator finds likely. Prints both losses.
//   own_loop [STEPS [TEXT]]     default: 20 steps, examples/corpus.txt
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "actors/session/session.hpp"
#include "config/load.hpp"

using namespace troupe;

namespace {

// A text is a prompt of real tokens, and what is written behind it. Tokens as unlikely as a guess are bad enough.
constexpr uint64_t rows = 4, sequence = 24, prompt = 8;
constexpr float floor_of_clip = -5.5F;

const char* const settings = R"(
model: {model_type: gpt2, n_layer: 2, n_embd: 64, n_head: 4, n_positions: 24, vocab_size: 256, embd_pdrop: 0,
        attn_pdrop: 0, resid_pdrop: 0}
parallel: {data: 2}
train_micro_batch_size_per_gpu: 2
gradient_accumulation_steps: 2          # at most two batches of four rows in a step,
managed_gradient_accumulation: false    # and this program decides how many
optimizer: {type: AdamW, params: {lr: 3.0e-3}}
zero_optimization: {stage: 2}
steps: 1000
telemetry: {trace: false, report: false}
)";

[[noreturn]] void fail(const std::string& why) {
  std::fprintf(stderr, "own_loop: %s\n", why.c_str());
  std::exit(1);
}
template <class T>
T got(core::result<T> x) {
  if (!x) fail(x.error().text);
  if constexpr (!std::is_void_v<T>) return *std::move(x);
}

std::unique_ptr<actors::session> opened(const std::string& name, int seed, const std::string& text) {
  config::load_options options;
  options.overrides = {"data.text=" + text, "data.sequence_length=" + std::to_string(sequence),
                       "seed=" + std::to_string(seed)};
  auto loaded = config::load_text(settings, name + ".yaml", ".", options);
  if (!loaded) fail(config::render(loaded.error()));
  return got(actors::session::open(std::make_shared<const config::job_config>(std::move(loaded->config))));
}

// Returns the mean of the numbers of row `r` that belong to tokens which follow the prompt.
double mean_of_row(const std::vector<float>& each, uint64_t r) {
  const auto first = each.begin() + static_cast<long>(r * sequence + prompt - 1);
  return std::accumulate(first, first + static_cast<long>(sequence - prompt + 1), 0.0) / double(sequence - prompt + 1);
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 20;
  const std::string path = argc > 2 ? argv[2] : "examples/corpus.txt";
  std::ifstream file(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  if (text.size() < 1024 || steps < 1) fail(path + ": wanted a text of 1024 bytes at least, and one step or more");
  const auto generator = opened("generator", 1, path), discriminator = opened("discriminator", 2, path);

  for (int step = 0; step < steps; ++step) {
    actors::token_batch real{.rows = rows, .tokens = {}, .counted = {}}, written = real;
    for (uint64_t r = 0; r < rows; ++r) {
      const uint64_t at = (uint64_t(step) * rows + r) * 997 % (text.size() - sequence);
      std::vector<int64_t> row(sequence + 1);
      for (uint64_t i = 0; i <= sequence; ++i) row[i] = static_cast<unsigned char>(text[at + i]);
      real.tokens.insert(real.tokens.end(), row.begin(), row.end());
      row.resize(prompt);
      row = got(generator->generate(row, sequence + 1 - prompt, 1.0));
      written.tokens.insert(written.tokens.end(), row.begin(), row.end());
    }

    // [snippet: own loop]
    // The discriminator: the likelihood of real texts rises, that of written ones falls until it is low enough.
    const auto of_real = got(discriminator->forward(real)), of_written = got(discriminator->forward(written));
    std::vector<float> down(rows * sequence);
    double judged = 0;
    for (size_t i = 0; i < down.size(); ++i) {
      const float likely = of_written.log_probabilities[i];
      down[i] = likely > floor_of_clip ? 1.0F / float(down.size()) : 0.0F;
      judged += double(std::max(likely, floor_of_clip)) / double(down.size());
    }
    got(discriminator->backward(of_real.number));
    got(discriminator->backward(of_written.number, down));
    got(discriminator->step());

    // The generator: texts that were found likelier become likelier. The part of the second loss falls step by step.
    const auto policy = got(generator->forward(written)), language = got(generator->forward(real));
    std::vector<float> rewarded(rows * sequence);
    double usual = 0, loss = 0;
    for (uint64_t r = 0; r < rows; ++r) usual += mean_of_row(of_written.log_probabilities, r) / double(rows);
    for (uint64_t r = 0; r < rows; ++r) {
      const double advantage = mean_of_row(of_written.log_probabilities, r) - usual;
      loss -= advantage * mean_of_row(policy.log_probabilities, r) / double(rows);
      for (uint64_t i = prompt - 1; i < sequence; ++i)
        rewarded[r * sequence + i] = float(-advantage / double(rows * (sequence - prompt + 1)));
    }
    got(generator->backward(policy.number, rewarded));
    got(generator->backward(language.number, 1.0 - 0.5 * step / steps));
    got(generator->step());
    // [end]
    std::printf("step %2d  discriminator %7.4f  generator %7.4f, of the text %.4f\n", step + 1, of_real.loss + judged,
                loss, language.loss);
  }
  return 0;
}
