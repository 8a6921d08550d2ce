// The model in this very process, without a handoff: the oracle that a cluster's answers are
// compared with.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "baton/engine/local_runner.h"
#include "baton/tokenizer/detokenizer.h"
#include "baton/tokenizer/prompt/model_text.h"
#include "baton/worker/engine_model.h"

#include "prompt.h"

namespace baton::cli {

class LocalModel {
 public:
  using OnText = std::function<void(std::string_view)>;
  using OnAnswer = std::function<void(std::size_t index, const Result<Answer>&)>;

  /// Errors as worker::load_engine_model() and engine::LocalRunner::create().
  static Result<std::unique_ptr<LocalModel>> load(const worker::WorkerConfig& config,
                                                  const std::function<void(double)>& progress);

  /// `on_text` gets the answer piece by piece.
  Result<Answer> complete(const Prompt& prompt, const OnText& on_text);

  /// Runs them `concurrency` at a time in one continuous batch. Answers come in order of prompts.
  void complete_all(std::span<const Prompt> prompts, std::size_t concurrency,
                    const OnAnswer& on_answer);

 private:
  struct Running {
    std::size_t index = 0;
    std::int64_t prompt_tokens = 0;
  };

  LocalModel(worker::EngineModel model, tokenizer::ModelText text)
      : model_(std::move(model)), text_(std::move(text)) {}
  Result<engine::SequenceSpec> spec_of(const Prompt& prompt) const;
  Answer answer_of(const engine::Completion& completion, std::int64_t prompt_tokens) const;

  worker::EngineModel model_;
  tokenizer::ModelText text_;
  std::unique_ptr<engine::LocalRunner> runner_;
};

}  // namespace baton::cli
