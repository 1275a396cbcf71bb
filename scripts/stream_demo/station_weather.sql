SELECT origin, count(*) AS readings, max(time_hour) AS newest, avg(pressure_kpa) AS pressure_mean_kpa
FROM silver_readings
GROUP BY origin
