"""Text that goes on, without a chat template.  You will see three ends of one prompt, the last one cut in a word."""

import guided

guide = guided.demo()
print(guide.chat(prompt="The capital of Norway is", temperature=0, max_tokens=6).content)
cities = [" Oslo", " Paris", " Rome"]
print(guide.chat(prompt="The capital of Norway is", response_format=cities, temperature=0).content)
names = guided.Regex("[a-z]{1,6}[.]")  # the prompt's last token is healed: the model may write it as it would
print(guide.chat(prompt="The capital of Norway is Os", response_format=names, temperature=0).content)
