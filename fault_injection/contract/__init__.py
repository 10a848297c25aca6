"""The contract as pytest: one test for each law and scenario, to run on any writer.

`pytest --pyargs fault_injection.contract --dump-target TARGET`
"""
