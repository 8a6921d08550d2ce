#include "local.h"

#include <optional>

namespace baton::cli {
namespace {

double ms(Duration duration) { return seconds(duration) * 1000; }

tokenizer::jinja::ChatRequest chat_of(const std::vector<Turn>& turns) {
  tokenizer::jinja::ChatRequest chat;
  for (const Turn& turn : turns) {
    tokenizer::jinja::ChatMessage& message = chat.messages.emplace_back();
    message.role = turn.role;
    message.content = turn.content;
  }
  return chat;
}

}  // namespace

Result<std::unique_ptr<LocalModel>> LocalModel::load(const worker::WorkerConfig& config,
                                                     const std::function<void(double)>& progress) {
  BATON_ASSIGN(worker::EngineModel model, worker::load_engine_model(config, progress));
  model.pool->pin_caller();
  BATON_ASSIGN(tokenizer::ModelText text, tokenizer::ModelText::make(model.bundle));
  std::unique_ptr<LocalModel> out(new LocalModel(std::move(model), std::move(text)));
  engine::LocalOptions options;
  options.cache = out->model_.cache;
  options.context_length = out->model_.context_length;
  options.token_budget = config.token_budget;
  options.chunk_rows =
      config.sequential_prefill ? engine::sequential_prefill_rows : config.chunk_rows;
  options.prefix_cache = config.prefix_cache;
  BATON_ASSIGN(out->runner_, engine::LocalRunner::create(*out->model_.model, options));
  return out;
}

Result<engine::SequenceSpec> LocalModel::spec_of(const Prompt& prompt) const {
  engine::SequenceSpec spec;
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&prompt.content)) {
    spec.prompt = *ids;
  } else if (const auto* turns = std::get_if<std::vector<Turn>>(&prompt.content)) {
    BATON_ASSIGN(spec.prompt, text_.chat_ids(chat_of(*turns)));
  } else {
    BATON_ASSIGN(spec.prompt, text_.text_ids(std::get<std::string>(prompt.content), true));
  }
  if (spec.prompt.empty()) return Error(Reason::invalid_request, "the prompt is empty");
  const Sampling& from = prompt.sampling;
  spec.params.temperature = static_cast<float>(from.temperature);
  spec.params.top_p = static_cast<float>(from.top_p);
  spec.params.top_k = static_cast<std::int32_t>(from.top_k);
  spec.params.seed = from.seed ? static_cast<std::uint64_t>(*from.seed) : random_seed();
  spec.params.max_tokens = from.max_tokens;
  spec.params.ignore_eos = from.ignore_eos;
  spec.logits_digest = from.logits_digest;
  spec.end_ids = model_.end_ids;
  spec.arrival = monotonic_now();
  return spec;
}

Answer LocalModel::answer_of(const engine::Completion& completion,
                             std::int64_t prompt_tokens) const {
  Answer answer;
  answer.text = text_.tokenizer().decode(completion.tokens);
  answer.token_ids = completion.tokens;
  for (const Digest128& digest : completion.logits_digests) {
    answer.logits_digests.push_back(digest.to_string());
  }
  answer.finish_reason = completion.finish == engine::Finish::stop ? "stop" : "length";
  answer.prompt_tokens = prompt_tokens;
  const engine::LocalTimes& times = completion.times;
  answer.facts["times_ms"] = {{"queue", ms(times.queue)},
                              {"prefill", ms(times.prefill)},
                              {"decode", ms(times.decode)},
                              {"total", ms(times.queue + times.prefill + times.decode)}};
  return answer;
}

Result<Answer> LocalModel::complete(const Prompt& prompt, const OnText& on_text) {
  BATON_ASSIGN(engine::SequenceSpec spec, spec_of(prompt));
  const auto prompt_tokens = static_cast<std::int64_t>(spec.prompt.size());
  tokenizer::Detokenizer stream(text_.tokenizer());
  BATON_ASSIGN(const engine::Completion completion,
               runner_->complete(std::move(spec), [&](const engine::TokenEvent& event) {
                 on_text(stream.push(event.id));
               }));
  on_text(stream.flush());
  return answer_of(completion, prompt_tokens);
}

void LocalModel::complete_all(std::span<const Prompt> prompts, std::size_t concurrency,
                              const OnAnswer& on_answer) {
  std::vector<std::optional<Result<Answer>>> answers(prompts.size());
  std::map<engine::SequenceId, Running> running;
  std::size_t next = 0;
  std::size_t answered = 0;
  while (answered < prompts.size()) {
    for (; next < prompts.size() && running.size() < concurrency; ++next) {
      Result<engine::SequenceSpec> spec = spec_of(prompts[next]);
      const std::int64_t length = spec ? static_cast<std::int64_t>(spec->prompt.size()) : 0;
      const Result<engine::SequenceId> id =
          spec ? runner_->submit(std::move(*spec)) : Result<engine::SequenceId>(spec.error());
      if (id) {
        running[*id] = {next, length};
      } else {
        answers[next] = Result<Answer>(id.error());
      }
    }
    const Result<bool> stepped = runner_->step();
    for (auto it = running.begin(); it != running.end();) {
      const std::optional<Result<engine::Completion>> outcome = runner_->take(it->first);
      const auto& [index, length] = it->second;
      if (outcome) {
        answers[index] = *outcome ? Result<Answer>(answer_of(**outcome, length))
                                  : Result<Answer>(outcome->error());
      } else if (!stepped) {
        runner_->drop(it->first);
        answers[index] = Result<Answer>(stepped.error());
      }
      it = answers[index] ? running.erase(it) : std::next(it);
    }
    for (; answered < prompts.size() && answers[answered]; ++answered) {
      on_answer(answered, *answers[answered]);
    }
  }
}

}  // namespace baton::cli
