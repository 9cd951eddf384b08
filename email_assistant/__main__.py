from email_assistant.cli import main

main()
