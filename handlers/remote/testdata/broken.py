def handle(changes:
