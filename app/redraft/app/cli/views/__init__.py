"""Holds how trees and comparisons look on a terminal; knows no verb and none of the tasks."""
