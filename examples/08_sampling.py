"""Rows with settings of their own.  You will see one batch sampled three ways, and a choice as probabilities."""

import guided
from guided import Sampling

guide = guided.demo()
chats = ["Name a fruit.", "Name a fruit.", "Name a fruit."]
rows = [
    Sampling(temperature=0),
    Sampling(temperature=1.2, top_p=0.9, seed=1),
    Sampling(temperature=1.2, min_p=0.1, seed=2, presence_penalty=1.0),
]
for message in guide.generate(chats, sampling=rows, max_tokens=16):
    print(repr(message.content))

for option in guide.choice_probabilities("Is a banana a fruit? Answer yes or no.", ["yes", "no"]):
    print(f"{option.text}: {option.probability:.3f}")
