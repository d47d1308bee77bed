from city import City
from langchain_openai import ChatOpenAI

guide = ChatOpenAI(model="fake").with_structured_output(City)
print(guide.invoke("Which city is warm?").name)
