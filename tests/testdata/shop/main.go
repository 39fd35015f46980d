package main

import (
	"halley/function/app"
	"halley/handlers"

	"example.com/shop/orders"
)

func main() {
	app.Main(
		handlers.New("orders", "mails the customer of each new order", orders.Open),
	)
}
